"""Namespaces: the array's tenants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale import namemap, quota
from kvlab.objectscale.management import Management
from kvlab.objectscale.namemap import NAMESPACE
from kvlab.objectscale.plan import Call, Document, Plan, quoted

_ALL = "/object/namespaces/namespace"


@dataclass(frozen=True)
class Namespace:
    """A wanted namespace. `settings` holds options of namemap.NAMESPACE, only those that are asked for."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^./\s]{1,255}", self.name):
            raise KvlabError(
                f"{self.name!r} is no name of a namespace: no '.', no '/', no space; choose another"
            )

    @property
    def path(self) -> str:
        return f"{_ALL}/{quoted(self.name)}"

    @property
    def about(self) -> str:
        return f"namespace {self.name}"


def find(api: Management, namespace: Namespace) -> Document | None:
    return api.find(namespace.path, namespace.about)


def plan(namespace: Namespace, found: Document | None) -> Plan:
    """Make the namespace, or change what differs; refuses a difference in what is fixed at creation."""
    after = {"state": "present", **namespace.settings}
    if found is None:
        return Plan(_creation(namespace), {"state": "absent"}, after)
    have = namemap.current(NAMESPACE, found)
    namemap.refuse_fixed(NAMESPACE, namespace.settings, have, namespace.about)
    before = {"state": "present"} | {option: have[option] for option in namespace.settings}
    return Plan(_changes(namespace, found, have), before, after)


def removal(namespace: Namespace, found: Document | None) -> Plan:
    gone = {"state": "absent"}
    if found is None:
        return Plan(before=gone, after=gone)
    return Plan((Call("POST", f"{namespace.path}/deactivate", namespace.about),), {"state": "present"}, gone)


def _creation(namespace: Namespace) -> tuple[Call, ...]:
    """The quota has a call of its own, also for a new namespace."""
    fields = [f for f in NAMESPACE if f.change != "quota"]
    body = {"namespace": namespace.name, **namemap.body(fields, namespace.settings)}
    made = Call("POST", _ALL, namespace.about, body)
    sizes = {f.option: namespace.settings.get(f.option, -1) for f in NAMESPACE if f.change == "quota"}
    if set(sizes.values()) == {-1}:
        return (made,)
    return made, quota.call(namespace.path, namespace.about, sizes)


def _changes(namespace: Namespace, found: Document, have: Mapping[str, Any]) -> tuple[Call, ...]:
    differing = namemap.differing(NAMESPACE, namespace.settings, have)
    updates = [f for f in differing if f.change in ("update", "allowed")]
    calls = [_update(namespace, found, have, updates)] if updates else []
    if any(f.change == "quota" for f in differing):
        values = {**quota.counts(found), **have, **namespace.settings}
        calls.append(quota.call(namespace.path, namespace.about, values))
    return tuple(calls)


def _update(
    namespace: Namespace, found: Document, have: Mapping[str, Any], fields: Sequence[namemap.Field]
) -> Call:
    """Allowed groups go as what comes and what leaves; user mappings as they are, lest they be cleared."""
    body = namemap.body([f for f in fields if f.change == "update"], namespace.settings)
    body["user_mapping"] = found.get("user_mapping") or []
    for f in fields:
        if f.change == "allowed":
            old, new = set(have[f.option]), set(namespace.settings[f.option])
            body["vpools_added_to_allowed_vpools_list"] = sorted(new - old)
            body["vpools_removed_from_allowed_vpools_list"] = sorted(old - new)
    return Call("PUT", namespace.path, namespace.about, body)
