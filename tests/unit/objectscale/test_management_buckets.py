"""A bucket: made in one call, compared through the name map, changed by the call that each setting has."""

from __future__ import annotations

from typing import Any

import pytest
from management_array import Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale import buckets, namemap
from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.errors import BusyError, ExistsError
from kvlab.objectscale.plan import Plan, converge

GROUP = "urn:storageos:ReplicationGroupInfo:0001:global"
OTHER_GROUP = "urn:storageos:ReplicationGroupInfo:0002:global"
PATH = "/object/bucket/kv"

SETTINGS: dict[str, Any] = {
    "replication_group": GROUP,
    "head_type": "s3",
    "filesystem": False,
    "encryption": True,
    "owner": "kvlab",
    "quota_gb": 200,
    "quota_notify_gb": 180,
    "retention": 0,
    "autocommit_period": 0,
    "available_in_outage": False,
    "read_only_in_outage": False,
    "versioning": "suspended",
}

# As the array writes such a bucket: other names, and flags that are strings (facts/objectscale.md 1.6).
INFO: dict[str, Any] = {
    "name": "kv",
    "namespace": "kvlab",
    "vpool": GROUP,
    "api_type": "S3",
    "fs_access_enabled": False,
    "is_encryption_enabled": "true",
    "owner": "kvlab",
    "block_size": 200,
    "notification_size": 180,
    "blockSizeInCount": -1,
    "notificationSizeInCount": -1,
    "default_retention": 0,
    "retention": 0,
    "auto_commit_period": 0,
    "is_stale_allowed": False,
    "is_tso_read_only": False,
    "versioning_status": "Suspended",
    "TagSet": [{"Key": "lab", "Value": "one"}],
    "locked": False,
}


def wanted(tags: dict[str, str] | None = None, locked: bool | None = None, **differing: Any) -> Bucket:
    return Bucket("kv", "kvlab", SETTINGS | differing, tags, locked)


def calls(plan: Plan) -> list[tuple[str, str, Any]]:
    return [(call.method, call.path.removeprefix(PATH), call.body or dict(call.query)) for call in plan.calls]


def test_what_the_array_reads_back_is_what_was_asked_for() -> None:
    plan = buckets.plan(wanted({"lab": "one"}, locked=False), INFO)
    assert not plan.changed
    assert plan.before == plan.after


def test_a_new_bucket_is_one_call_with_the_array_s_own_names() -> None:
    plan = buckets.plan(wanted({"lab": "one"}), None)
    assert [(call.method, call.path) for call in plan.calls] == [("POST", "/object/bucket")]
    assert plan.calls[0].body == {
        "name": "kv",
        "namespace": "kvlab",
        "vpool": GROUP,
        "head_type": "s3",
        "filesystem_enabled": False,
        "is_encryption_enabled": True,
        "owner": "kvlab",
        "blockSize": 200,
        "notificationSize": 180,
        "retention": 0,
        "autocommit_period": 0,
        "is_stale_allowed": False,
        "is_tso_read_only": False,
        "versioning_status": "Suspended",
        "TagSet": [{"Key": "lab", "Value": "one"}],
    }


def test_what_is_not_asked_for_is_not_sent_and_not_compared() -> None:
    plan = buckets.plan(Bucket("kv", "kvlab"), None)
    assert plan.calls[0].body == {"name": "kv", "namespace": "kvlab"}
    assert not buckets.plan(Bucket("kv", "kvlab"), INFO).changed


def test_a_new_bucket_without_a_quota_is_not_sent_one() -> None:
    body = buckets.plan(Bucket("kv", "kvlab", {"quota_gb": -1, "quota_notify_gb": -1}), None).calls[0].body
    assert body == {"name": "kv", "namespace": "kvlab"}


def test_a_bucket_that_is_to_be_locked_is_locked_after_it_was_made() -> None:
    assert calls(buckets.plan(wanted(locked=True), None))[1] == ("PUT", "/lock/true", {"namespace": "kvlab"})


NAMESPACE = {"namespace": "kvlab"}
CHANGED = {
    "owner": (
        "other",
        [("POST", "/owner", {"new_owner": "other", "reset_previous_owners": True} | NAMESPACE)],
    ),
    "quota_gb": (300, [("PUT", "/quota", {"blockSize": 300, "notificationSize": 180} | NAMESPACE)]),
    "quota_notify_gb": (-1, [("PUT", "/quota", {"blockSize": 200, "notificationSize": -1} | NAMESPACE)]),
    "retention": (60, [("PUT", "/retention", {"period": 60} | NAMESPACE)]),
    "autocommit_period": (60, [("PUT", "/autocommit", {"autocommit": "60"} | NAMESPACE)]),
    "available_in_outage": (
        True,
        [("POST", "/isstaleallowed", {"is_stale_allowed": "true", "is_tso_read_only": False} | NAMESPACE)],
    ),
    "read_only_in_outage": (
        True,
        [("POST", "/isstaleallowed", {"is_stale_allowed": "false", "is_tso_read_only": True} | NAMESPACE)],
    ),
    "versioning": ("enabled", [("PUT", "/versioning", {"Status": "Enabled"})]),
}
FIXED = {"replication_group": OTHER_GROUP, "head_type": "cas", "filesystem": True, "encryption": False}


def test_every_setting_is_tried_below() -> None:
    assert {field.option for field in namemap.BUCKET} == CHANGED.keys() | FIXED.keys() == SETTINGS.keys()


@pytest.mark.parametrize("option", CHANGED)
def test_a_setting_that_differs_is_changed_by_its_call_and_shown(option: str) -> None:
    value, expected = CHANGED[option]
    plan = buckets.plan(wanted(**{option: value}), INFO)
    assert calls(plan) == expected
    assert (plan.before[option], plan.after[option]) == (SETTINGS[option], value)
    assert {name for name in plan.after if plan.before[name] != plan.after[name]} == {option}


def test_periods_are_read_back_as_they_were_written() -> None:
    info = INFO | {"default_retention": "60", "auto_commit_period": 30}
    assert not buckets.plan(wanted(retention=60, autocommit_period=30), info).changed


def test_two_settings_of_one_call_make_one_call() -> None:
    plan = buckets.plan(wanted(quota_gb=10, quota_notify_gb=9), INFO)
    assert calls(plan) == [("PUT", "/quota", {"blockSize": 10, "notificationSize": 9} | NAMESPACE)]


def test_no_quota_at_all_has_a_call_of_its_own() -> None:
    plan = buckets.plan(wanted(quota_gb=-1, quota_notify_gb=-1), INFO)
    assert calls(plan) == [("DELETE", "/quota", NAMESPACE)]


def test_a_change_of_sizes_keeps_the_limits_on_numbers_of_objects() -> None:
    counts = {"blockSizeInCount": 1000, "notificationSizeInCount": -1}
    plan = buckets.plan(wanted(quota_gb=-1, quota_notify_gb=-1), INFO | counts)
    expected = {"blockSize": -1, "notificationSize": -1, "blockSizeInCount": 1000} | NAMESPACE
    assert calls(plan) == [("PUT", "/quota", expected)]


@pytest.mark.parametrize("unset", [-1, -2, None, ""])
def test_all_the_array_s_words_for_no_quota_are_one(unset: Any) -> None:
    info = INFO | {"block_size": unset, "notification_size": unset}
    assert not buckets.plan(wanted(quota_gb=-1, quota_notify_gb=-1), info).changed


@pytest.mark.parametrize("option", FIXED)
def test_a_difference_in_what_is_fixed_is_named_and_refused(option: str) -> None:
    with pytest.raises(KvlabError) as raised:
        buckets.plan(wanted(**{option: FIXED[option]}), INFO)
    assert (
        f"bucket kv of namespace kvlab: {option} is {SETTINGS[option]!r}, not {FIXED[option]!r}. That is"
        in str(raised.value)
    )


def test_all_fixed_differences_are_named_at_once() -> None:
    with pytest.raises(KvlabError) as raised:
        buckets.plan(wanted(owner="other", **FIXED), INFO)
    assert all(option in str(raised.value) for option in FIXED)


def test_tags_are_removed_changed_and_added_by_three_calls_in_the_order_that_keeps_the_limit() -> None:
    have = {
        "TagSet": [
            {"Key": "old", "Value": "1"},
            {"Key": "other", "Value": "1"},
            {"Key": "same", "Value": "1"},
        ]
    }
    plan = buckets.plan(wanted({"other": "2", "same": "1", "new": "3"}), INFO | have)
    assert calls(plan) == [
        ("DELETE", "/tags", {"TagSet": [{"Key": "old", "Value": "1"}]} | NAMESPACE),
        ("PUT", "/tags", {"TagSet": [{"Key": "other", "Value": "2"}]} | NAMESPACE),
        ("POST", "/tags", {"TagSet": [{"Key": "new", "Value": "3"}]} | NAMESPACE),
    ]


def test_an_empty_mapping_removes_the_tags_and_none_leaves_them() -> None:
    assert calls(buckets.plan(wanted({}), INFO))[0][0] == "DELETE"
    assert not buckets.plan(wanted(None), INFO).changed


def test_a_lock_is_set_and_taken_off() -> None:
    assert calls(buckets.plan(wanted(locked=True), INFO)) == [("PUT", "/lock/true", NAMESPACE)]
    assert calls(buckets.plan(wanted(locked=False), INFO | {"locked": True})) == [
        ("PUT", "/lock/false", NAMESPACE)
    ]


def test_a_bucket_that_is_being_emptied_is_left_alone() -> None:
    with pytest.raises(BusyError, match="is being emptied and removed; wait"):
        buckets.plan(wanted(), INFO | {"is_empty_bucket_in_progress": True})


@pytest.mark.parametrize("name", ["kv", "KV_cache.2", "a", "x" * 255, "-", "1.2.3"])
def test_names_that_objectscale_takes(name: str) -> None:
    assert Bucket(name, "kvlab").name == name


@pytest.mark.parametrize("name", ["", ".kv", "kv.", "k..v", "k v", "k/v", "käse", "x" * 256, "192.0.2.1"])
def test_names_that_objectscale_refuses_are_not_sent(name: str) -> None:
    with pytest.raises(KvlabError, match="is no bucket name"):
        Bucket(name, "kvlab")


FIND = f"GET {PATH}/info?namespace=kvlab"


def bring(array: Array, check: bool = False) -> Plan:
    with array.management() as api:
        bucket = wanted()
        return converge(
            api, lambda: buckets.find(api, bucket), lambda found: buckets.plan(bucket, found), check=check
        )


def test_a_bucket_in_order_costs_one_request(array: Array) -> None:
    array.tell(FIND, INFO)
    assert not bring(array).changed
    assert array.calls == [FIND]


def test_check_mode_plans_the_same_and_sends_nothing(array: Array) -> None:
    array.tell(FIND, error(400, 1004))
    checked = bring(array, check=True)
    assert array.calls == [FIND]
    assert bring(array) == checked
    assert array.calls[1:] == [FIND, "POST /object/bucket"]


@pytest.mark.parametrize("code", [1004, 1013])
def test_both_codes_for_an_absent_bucket_mean_that_it_is_made(array: Array, code: int) -> None:
    array.tell(FIND, error(400, code))
    assert bring(array).changed


def test_a_bucket_that_another_play_made_meanwhile_is_compared(array: Array) -> None:
    array.tell(FIND, error(400, 1004), INFO | {"block_size": 1})
    array.tell("POST /object/bucket", error(400, 40008))
    plan = bring(array)
    assert array.calls == [FIND, "POST /object/bucket", FIND, f"PUT {PATH}/quota"]
    assert plan.before["quota_gb"] == 1


def test_a_bucket_that_exists_but_cannot_be_seen_is_an_error(array: Array) -> None:
    array.tell(FIND, error(400, 1004))
    array.tell("POST /object/bucket", error(400, 40008))
    with pytest.raises(ExistsError):
        bring(array)
