"""Bucket policies are compared by meaning; IAM users keep their policies and one access key."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from management_array import Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale import bucket_policies, iam_users
from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.iam_users import IamUser
from kvlab.objectscale.plan import Plan

BUCKET = Bucket("kv", "kvlab")
POLICY = "GET /object/bucket/kv/policy?namespace=kvlab"


def policy(**differing: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["reader"]},
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": ["kv/*"],
    }
    return {"Version": "2012-10-17", "Statement": [statement | differing]}


@pytest.mark.parametrize(
    "same",
    [
        policy(),
        policy(Action=["s3:ListBucket", "s3:GetObject"]),
        policy(Resource="kv/*"),
        policy(Principal={"AWS": "reader"}),
        policy() | {"Statement": policy()["Statement"][0]},
    ],
)
def test_policies_of_one_meaning_are_no_change(same: dict[str, Any]) -> None:
    assert not bucket_policies.plan(BUCKET, policy(), same).changed


@pytest.mark.parametrize(
    "other",
    [
        None,
        policy(Effect="Deny"),
        policy(Action="s3:GetObject"),
        policy(Principal={"AWS": ["writer"]}),
        policy(Resource=["kv"]),
        policy(Condition={"Bool": {"aws:SecureTransport": "true"}}),
        policy() | {"Statement": []},
    ],
)
def test_policies_of_another_meaning_are_replaced(other: dict[str, Any] | None) -> None:
    plan = bucket_policies.plan(BUCKET, policy(), other)
    assert [(c.method, c.path, c.body) for c in plan.calls] == [("PUT", "/object/bucket/kv/policy", policy())]
    assert plan.calls[0].query == {"namespace": "kvlab"}
    assert (plan.before, plan.after) == ({"policy": other}, {"policy": policy()})


def test_a_policy_is_removed_only_where_there_is_one() -> None:
    assert [c.method for c in bucket_policies.plan(BUCKET, None, policy()).calls] == ["DELETE"]
    assert not bucket_policies.plan(BUCKET, None, None).changed


@pytest.mark.parametrize(
    "answer", [error(404, 2000), error(400, 1004), httpx.Response(200), httpx.Response(200, json={})]
)
def test_all_the_array_s_words_for_no_policy_are_one(array: Array, answer: httpx.Response) -> None:
    array.tell(POLICY, answer)
    with array.management() as api:
        assert bucket_policies.find(api, BUCKET) is None


USER = IamUser("reader", "kvlab", {"read": policy()})


def actions(plan: Plan) -> list[str]:
    assert {call.headers["x-emc-namespace"] for call in plan.calls} <= {"kvlab"}
    return [call.query["Action"] for call in plan.calls]


def iam(action: str, **more: str) -> str:
    parameters = {"Action": action, "UserName": "reader", **more}
    return "POST /iam?" + "&".join(f"{name}={value}" for name, value in parameters.items())


def result(action: str, content: dict[str, Any]) -> dict[str, Any]:
    return {f"{action}Result": content, "ResponseMetadata": {"RequestId": "1"}}


@pytest.mark.parametrize("encode", [str, quote])
def test_an_iam_user_is_read_with_its_policies_and_keys(array: Array, encode: Any) -> None:
    array.tell(iam("GetUser"), result("GetUser", {"User": {"UserName": "reader"}}))
    array.tell(iam("ListUserPolicies"), result("ListUserPolicies", {"PolicyNames": ["read"]}))
    document = {"PolicyDocument": encode(json.dumps(policy()))}
    array.tell(iam("GetUserPolicy", PolicyName="read"), result("GetUserPolicy", document))
    keys = {"AccessKeyMetadata": [{"AccessKeyId": "AKIA1", "Status": "Active"}]}
    array.tell(iam("ListAccessKeys"), result("ListAccessKeys", keys))
    with array.management() as api:
        found = iam_users.find(api, USER)
    assert found == {"policies": {"read": policy()}, "access_keys": ["AKIA1"]}
    assert not iam_users.plan(USER, found).changed


def test_an_iam_user_that_is_not_there_is_none(array: Array) -> None:
    array.tell(iam("GetUser"), httpx.Response(404, json={"Code": "NoSuchEntity", "Message": "no"}))
    with array.management() as api:
        assert iam_users.find(api, USER) is None
    assert array.calls == [iam("GetUser")]


def test_an_iam_user_is_made_with_its_policies() -> None:
    plan = iam_users.plan(USER, None)
    assert actions(plan) == ["CreateUser", "PutUserPolicy"]
    assert (plan.before, plan.after["state"]) == ({"state": "absent"}, "present")
    assert json.loads(plan.calls[1].query["PolicyDocument"]) == policy()


def test_policies_are_replaced_added_and_removed() -> None:
    found = {"policies": {"read": policy(Effect="Deny"), "old": policy()}, "access_keys": []}
    assert actions(iam_users.plan(USER, found)) == ["DeleteUserPolicy", "PutUserPolicy"]
    assert not iam_users.plan(IamUser("reader", "kvlab"), found).changed


def test_removal_takes_away_first_what_would_hold_the_user() -> None:
    found = {"policies": {"read": policy()}, "access_keys": ["AKIA1"]}
    assert actions(iam_users.removal(USER, found)) == ["DeleteUserPolicy", "DeleteAccessKey", "DeleteUser"]
    assert not iam_users.removal(USER, None).changed


def test_a_key_is_made_when_the_kept_one_is_not_the_user_s() -> None:
    assert iam_users.needs_key(USER, None, [])
    assert iam_users.needs_key(USER, {"access_key": "AKIA9"}, ["AKIA1"])
    assert not iam_users.needs_key(USER, {"access_key": "AKIA1"}, ["AKIA1"])


def test_a_third_access_key_is_refused_with_the_names_of_the_two() -> None:
    with pytest.raises(KvlabError, match="delete one of AKIA1, AKIA2"):
        iam_users.needs_key(USER, None, ["AKIA1", "AKIA2"])
