"""Namespaces: create, list, read, change, remove, quota, retention classes."""

from __future__ import annotations

import re
from typing import Any

from kvlab.emulator.management import iam, limits, topology, users
from kvlab.emulator.management.ask import Answer, Ask, flag, items, number, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.management.records import Document

KIND = "namespace"
_NAME = re.compile("[A-Za-z0-9_-]{1,255}")  # Dell forbids . and /; the rest is a guess (docs/fidelity.md)
_DELTAS = {
    "allowed_vpools_list": ("vpools_added_to_allowed_vpools_list", "vpools_removed_from_allowed_vpools_list"),
    "disallowed_vpools_list": (
        "vpools_added_to_disallowed_vpools_list",
        "vpools_removed_from_disallowed_vpools_list",
    ),
}


def link(name: str) -> Document:
    return {"rel": "self", "href": f"/object/namespaces/namespace/{name}"}


def list_all(ask: Ask) -> Answer:
    known = ask.records.all(KIND)
    shown, more = ask.page([name for name in known if ask.admin.namespace in ("", name)])
    entries = [known[name] for name in shown]
    return Answer({"namespace": entries, "MaxNamespaces": len(shown)} | more, "namespaces")


def create(ask: Ask) -> Answer:
    ask.need_system()
    name = text(ask.body, "namespace")
    if not _NAME.fullmatch(name):
        raise ApiError(1008, f"The namespace {name} must be 1 to 255 of letters, digits, _ and -")
    if ask.records.get(KIND, name) is not None:
        raise ApiError(1015, f"A namespace with the name {name} already exists")
    groups = topology.group_ids(ask.array)
    default = text(ask.body, "default_data_services_vpool", next(iter(groups)))
    allowed = [topology.known_group(ask.array, group) for group in items(ask.body, "allowed_vpools_list")]
    made: Document = {
        "name": name,
        "id": name,
        "link": link(name),
        "creation_time": int(ask.array.service.clock() * 1000),
        "inactive": False,
        "global": False,
        "remote": False,
        "internal": False,
        "default_data_services_vpool": topology.known_group(ask.array, default),
        "allowed_vpools_list": allowed,
        "disallowed_vpools_list": [
            topology.known_group(ask.array, group) for group in items(ask.body, "disallowed_vpools_list")
        ],
        "namespace_admins": text(ask.body, "namespace_admins", ""),
        "user_mapping": _mappings(ask.body),
        "is_encryption_enabled": str(flag(ask.body, "is_encryption_enabled", default=False)).lower(),
        "default_bucket_block_size": number(ask.body, "default_bucket_block_size", -1),
        "external_group_admins": text(ask.body, "external_group_admins", ""),
        "is_stale_allowed": flag(ask.body, "is_stale_allowed", default=False),
        "is_object_lock_with_ado_allowed": flag(ask.body, "is_object_lock_with_ado_allowed", default=False),
        "is_compliance_enabled": flag(ask.body, "compliance_enabled", default=False),
        "default_audit_delete_expiration": number(ask.body, "default_audit_delete_expiration", -1),
        "root_user_name": "root",
        "retention_classes": {"retention_class": []},
        **dict.fromkeys(limits.NAMES, -1),
    }
    ask.records.put(KIND, name, made)
    return Answer(made, "namespace")


def read(ask: Ask) -> Answer:
    return Answer(_found(ask), "namespace")


def update(ask: Ask) -> Answer:
    """Lists come as what is added and removed; `user_mapping` must be sent, and replaces what is there."""
    ask.need_system()
    found, body = _found(ask), ask.body
    if "user_mapping" not in body:
        raise ApiError(1005, "user_mapping is missing")
    found["user_mapping"] = _mappings(body)
    if body.get("default_data_services_vpool"):
        found["default_data_services_vpool"] = topology.known_group(
            ask.array, text(body, "default_data_services_vpool")
        )
    for name, (added, removed) in _DELTAS.items():
        new = [topology.known_group(ask.array, group) for group in items(body, added)]
        gone = items(body, removed)
        found[name] = [*(g for g in found[name] if g not in gone), *(g for g in new if g not in found[name])]
    for name in ("namespace_admins", "external_group_admins"):
        if name in body:
            found[name] = text(body, name, "")
    for name in ("default_bucket_block_size", "default_audit_delete_expiration"):
        found[name] = number(body, name, found[name])
    for name in ("is_stale_allowed", "is_object_lock_with_ado_allowed"):
        found[name] = flag(body, name, found[name])
    encrypted = flag(body, "is_encryption_enabled", found["is_encryption_enabled"] == "true")
    found["is_encryption_enabled"] = str(encrypted).lower()
    ask.records.put(KIND, found["name"], found)
    return Answer()


def deactivate(ask: Ask) -> Answer:
    """Remove it, when nothing is in it."""
    ask.need_system()
    name = _found(ask)["name"]
    held = {
        "buckets": bool(ask.array.service.index.buckets(name)),
        "users": any(user["namespace"] == name for user in ask.records.all(users.KIND).values()),
        "IAM users": any(user["namespace"] == name for user in ask.records.all(iam.USER).values()),
    }
    there = [what for what, is_there in held.items() if is_there]
    if there:
        raise ApiError(1020, f"The namespace {name} has {' and '.join(there)}")
    for arn, policy in ask.records.all(iam.POLICY).items():
        if policy["namespace"] == name:
            ask.records.remove(iam.POLICY, arn)
    ask.records.remove(KIND, name)
    return Answer()


def read_quota(ask: Ask) -> Answer:
    found = _found(ask)
    return Answer(
        {"namespace": found["name"]} | {name: found[name] for name in limits.NAMES}, "namespace_quota_details"
    )


def update_quota(ask: Ask) -> Answer:
    found = _found(ask)
    ask.records.put(KIND, found["name"], found | limits.given(ask.body, complete=True))
    return Answer()


def remove_quota(ask: Ask) -> Answer:
    found = _found(ask)
    ask.records.put(KIND, found["name"], found | dict.fromkeys(limits.NAMES, -1))
    return Answer()


def list_classes(ask: Ask) -> Answer:
    return Answer(_found(ask)["retention_classes"], "retention_classes")


def create_class(ask: Ask) -> Answer:
    found, name = _found(ask), text(ask.body, "name")
    classes = found["retention_classes"]["retention_class"]
    if any(known["name"] == name for known in classes):
        raise ApiError(1015, f"A retention class with the name {name} already exists")
    classes.append({"name": name, "period": number(ask.body, "period")})
    ask.records.put(KIND, found["name"], found)
    return Answer()


def read_class(ask: Ask) -> Answer:
    return Answer(_class(_found(ask), ask.place["class"]), "retention_class")


def update_class(ask: Ask) -> Answer:
    found = _found(ask)
    _class(found, ask.place["class"])["period"] = number(ask.body, "period")
    ask.records.put(KIND, found["name"], found)
    return Answer()


def _class(found: Document, name: str) -> Document:
    for known in found["retention_classes"]["retention_class"]:
        if known["name"] == name:
            assert isinstance(known, dict)
            return known
    raise not_found(name)


def _found(ask: Ask) -> Document:
    """The namespace that the path names."""
    name = ask.own_namespace(ask.place["namespace"])
    found = ask.records.get(KIND, name)
    assert found is not None
    return found


def _mappings(body: Document) -> list[Any]:
    mappings = items(body, "user_mapping")
    for mapping in mappings:
        if not isinstance(mapping, dict) or not mapping.get("domain"):
            raise ApiError(1005, "The domain of a user_mapping is missing")
    return mappings
