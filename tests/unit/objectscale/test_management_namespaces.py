"""A namespace: quota by a call of its own, allowed groups as differences, user mappings kept."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.objectscale import namemap, namespaces
from kvlab.objectscale.namespaces import Namespace
from kvlab.objectscale.plan import Plan

SETTINGS: dict[str, Any] = {
    "replication_group": "urn:1",
    "allowed_replication_groups": ["urn:1", "urn:2"],
    "admins": ["ann", "bob"],
    "encryption": True,
    "available_in_outage": False,
    "bucket_quota_gb": -1,
    "compliance": False,
    "quota_gb": 1000,
    "quota_notify_gb": 900,
}

# As the array writes it: encryption is a string, admins one string, compliance under another name.
FOUND: dict[str, Any] = {
    "name": "kvlab",
    "id": "kvlab",
    "default_data_services_vpool": "urn:1",
    "allowed_vpools_list": ["urn:2", "urn:1"],
    "disallowed_vpools_list": [],
    "namespace_admins": "bob, ann",
    "is_encryption_enabled": "true",
    "is_stale_allowed": False,
    "default_bucket_block_size": -1,
    "is_compliance_enabled": False,
    "blockSize": 1000,
    "notificationSize": 900,
    "user_mapping": [{"domain": "example.com", "attributes": [], "groups": ["kv"]}],
}
PATH = "/object/namespaces/namespace"


def calls(plan: Plan) -> list[tuple[str, str, Any]]:
    return [(call.method, call.path.removeprefix(PATH), call.body) for call in plan.calls]


def change(**differing: Any) -> Plan:
    return namespaces.plan(Namespace("kvlab", SETTINGS | differing), FOUND)


def test_what_the_array_reads_back_is_what_was_asked_for() -> None:
    assert not change().changed


def test_a_new_namespace_is_made_and_then_given_its_quota() -> None:
    made = {
        "namespace": "kvlab",
        "default_data_services_vpool": "urn:1",
        "allowed_vpools_list": ["urn:1", "urn:2"],
        "namespace_admins": "ann,bob",
        "is_encryption_enabled": True,
        "is_stale_allowed": False,
        "default_bucket_block_size": -1,
        "compliance_enabled": False,
    }
    plan = namespaces.plan(Namespace("kvlab", SETTINGS), None)
    assert calls(plan) == [
        ("POST", "", made),
        ("PUT", "/kvlab/quota", {"blockSize": 1000, "notificationSize": 900}),
    ]


def test_a_new_namespace_without_a_quota_is_one_call() -> None:
    assert calls(namespaces.plan(Namespace("kvlab", {"quota_gb": -1}), None)) == [
        ("POST", "", {"namespace": "kvlab"})
    ]


MAPPING = {"user_mapping": FOUND["user_mapping"]}
CHANGED = {
    "replication_group": ("urn:2", {"default_data_services_vpool": "urn:2"} | MAPPING),
    "allowed_replication_groups": (
        ["urn:2", "urn:3"],
        {
            "vpools_added_to_allowed_vpools_list": ["urn:3"],
            "vpools_removed_from_allowed_vpools_list": ["urn:1"],
        }
        | MAPPING,
    ),
    "admins": (["ann"], {"namespace_admins": "ann"} | MAPPING),
    "encryption": (False, {"is_encryption_enabled": False} | MAPPING),
    "available_in_outage": (True, {"is_stale_allowed": True} | MAPPING),
    "bucket_quota_gb": (50, {"default_bucket_block_size": 50} | MAPPING),
}
QUOTA = {"quota_gb": 2000, "quota_notify_gb": -1}


def test_every_setting_is_tried_here() -> None:
    assert {field.option for field in namemap.NAMESPACE} == CHANGED.keys() | QUOTA.keys() | {"compliance"}


@pytest.mark.parametrize("option", CHANGED)
def test_a_setting_that_differs_is_changed_and_user_mappings_go_along(option: str) -> None:
    value, body = CHANGED[option]
    assert calls(change(**{option: value})) == [("PUT", "/kvlab", body)]


@pytest.mark.parametrize("option", QUOTA)
def test_a_quota_is_changed_with_both_sizes(option: str) -> None:
    body = {"blockSize": 1000, "notificationSize": 900}
    body[{"quota_gb": "blockSize", "quota_notify_gb": "notificationSize"}[option]] = QUOTA[option]
    assert calls(change(**{option: QUOTA[option]})) == [("PUT", "/kvlab/quota", body)]


def test_no_quota_has_a_call_of_its_own() -> None:
    assert calls(change(quota_gb=-1, quota_notify_gb=-1)) == [("DELETE", "/kvlab/quota", None)]


def test_what_is_fixed_is_named_and_refused() -> None:
    with pytest.raises(KvlabError, match="namespace kvlab: compliance is False, not True. That is fixed"):
        change(compliance=True)


def test_removal_is_one_call_for_one_that_is_there() -> None:
    namespace = Namespace("kvlab")
    assert calls(namespaces.removal(namespace, FOUND)) == [("POST", "/kvlab/deactivate", None)]
    assert not namespaces.removal(namespace, None).changed


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "a b"])
def test_names_that_the_array_refuses_are_not_sent(name: str) -> None:
    with pytest.raises(KvlabError, match="is no name of a namespace"):
        Namespace(name)
