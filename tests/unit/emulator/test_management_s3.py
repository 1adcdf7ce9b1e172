"""What the management API sets is what S3 does: owners, policies, IAM users, quota, lock, retention, emptying."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from emulator_helpers import refused, wait_until
from management_helpers import Api, Managed

from kvlab.emulator import access, policies
from kvlab.emulator.management import emptying

SECRET = "not-a-secret-but-long-enough"
MIB = 1 << 20
_numbers = count()


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    running = Managed(tmp_path_factory.mktemp("array"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def api(array: Managed) -> Api:
    return array.enter()


@pytest.fixture
def place(api: Api) -> str:
    """A namespace with the users NAME and NAME-other, and the bucket kv of the first."""
    name = f"ns{next(_numbers)}"
    api.ok("POST", "/object/namespaces/namespace", {"namespace": name})
    for user in (name, f"{name}-other"):
        api.ok("POST", "/object/users", {"user": user, "namespace": name})
        api.ok("POST", f"/object/user-secret-keys/{user}", {"secretkey": SECRET})
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": name, "owner": name})
    return name


def owner(array: Managed, place: str) -> Any:
    return array.client(place, SECRET)


def other(array: Managed, place: str) -> Any:
    return array.client(f"{place}-other", SECRET)


def statement(effect: str, principal: str, *actions: str, resource: str = "kv/*") -> dict[str, Any]:
    return {"Effect": effect, "Principal": [principal], "Action": list(actions), "Resource": [resource]}


def test_the_owner_that_ops_set_is_the_one_that_s3_lets_in(array: Managed, api: Api, place: str) -> None:
    owner(array, place).put_object(Bucket="kv", Key="k", Body=b"v")
    assert refused(other(array, place).get_object, Bucket="kv", Key="k") == ("AccessDenied", 403)
    api.ok("POST", "/object/bucket/kv/owner", {"namespace": place, "new_owner": f"{place}-other"})
    assert other(array, place).get_object(Bucket="kv", Key="k")["Body"].read() == b"v"
    assert refused(owner(array, place).get_object, Bucket="kv", Key="k") == ("AccessDenied", 403)
    change = {"namespace": place, "new_owner": "nobody"}
    assert api.refused("POST", "/object/bucket/kv/owner", change) == (40010, 400)


def test_a_bucket_made_over_s3_is_there_for_ops(array: Managed, api: Api, place: str) -> None:
    owner(array, place).create_bucket(Bucket="made-by-s3")
    found = api.ok("GET", f"/object/bucket/made-by-s3/info?namespace={place}")
    assert (found["owner"], found["block_size"], found["is_encryption_enabled"]) == (place, -1, "false")


def test_a_policy_lets_others_in_as_far_as_it_says(array: Managed, api: Api, place: str) -> None:
    owner(array, place).put_object(Bucket="kv", Key="shared/k", Body=b"v")
    path, reader = f"/object/bucket/kv/policy?namespace={place}", other(array, place)
    allow = statement("Allow", f"{place}-other", "s3:GetObject", resource="kv/shared/*")
    api.ok("PUT", path, {"Version": "2012-10-17", "Statement": [allow]})
    assert api.ok("GET", path)["Statement"] == [allow]
    assert reader.get_object(Bucket="kv", Key="shared/k")["Body"].read() == b"v"
    assert refused(reader.get_object, Bucket="kv", Key="own") == ("AccessDenied", 403)
    assert refused(reader.list_objects_v2, Bucket="kv") == ("AccessDenied", 403)
    assert refused(reader.put_object, Bucket="kv", Key="shared/k", Body=b"") == ("AccessDenied", 403)
    api.ok("DELETE", path)
    assert refused(reader.get_object, Bucket="kv", Key="shared/k") == ("AccessDenied", 403)
    assert api.ok("GET", path) == {}


def test_a_deny_holds_for_the_owner_too(array: Managed, api: Api, place: str) -> None:
    deny = statement("Deny", "*", "s3:Delete*")
    api.ok("PUT", f"/object/bucket/kv/policy?namespace={place}", {"Statement": deny})
    client = owner(array, place)
    client.put_object(Bucket="kv", Key="k", Body=b"v")
    assert refused(client.delete_object, Bucket="kv", Key="k") == ("AccessDenied", 403)


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"Statement": []},
        {"Statement": ["x"]},
        {"Statement": {"Effect": "Maybe", "Principal": "*", "Action": "*", "Resource": "*"}},
        {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}},
        {"Statement": statement("Allow", "*", "s3:*") | {"Condition": {}}},
        {"Statement": statement("Allow", "*", "s3:*") | {"Principal": {"AWS": [{"a": 1}]}}},
        {"Statement": statement("Allow", "*", "s3:*") | {"Action": 5}},
        {"Statement": statement("Allow", "*", "s3:*") | {"Resource": [{"a": 1}]}},
    ],
)
def test_a_policy_that_is_none_or_cannot_be_honoured_is_refused(api: Api, place: str, policy: Any) -> None:
    assert api.refused("PUT", f"/object/bucket/kv/policy?namespace={place}", policy) == (1013, 400)


@pytest.mark.parametrize(
    ("action", "resource", "names", "verdict"),
    [
        ("s3:GetObject", "kv/a", {"u"}, "allow"),
        ("S3:getobject", "kv/a", {"u"}, "allow"),
        ("s3:GetObject", "kv/a", {"x"}, "silent"),
        ("s3:GetObject", "other/a", {"u"}, "silent"),
        ("s3:PutObject", "kv/a", {"u"}, "silent"),
        ("s3:GetObject", "kv/secret", {"u"}, "deny"),
        ("s3:GetObject", "kv/[x]/s", {"u"}, "deny"),
        ("s3:GetObject", "kv/x/s", {"u"}, "allow"),
    ],
)
def test_what_a_policy_says(action: str, resource: str, names: set[str], verdict: str) -> None:
    policy = {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": ["u"]},
                "Action": "s3:Get*",
                "Resource": "arn:aws:s3:::kv/*",
            },
            {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": ["kv/secret", "kv/[x]/*"]},
        ]
    }
    said = policies.judge(policy, action=action, resource=resource, principals=frozenset(names))
    assert said == verdict


def test_a_quota_stops_what_goes_over_it(array: Managed, api: Api, place: str) -> None:
    client = owner(array, place)
    path, query = "/object/bucket/kv/quota", {"namespace": place}
    api.ok("PUT", path, query | {"blockSize": 1, "notificationSize": -1, "blockSizeInCount": 2})
    client.put_object(Bucket="kv", Key="a", Body=b"v")
    client.put_object(Bucket="kv", Key="b", Body=b"v")
    assert refused(client.put_object, Bucket="kv", Key="c", Body=b"v") == ("QuotaExceeded", 403)
    client.put_object(Bucket="kv", Key="b", Body=b"longer")  # in place of another
    under = query | {"blockSize": 1, "notificationSize": -1, "blockSizeInCount": 1}
    assert api.refused("PUT", path, under) == (1008, 400)
    api.ok("DELETE", f"{path}?namespace={place}")
    client.put_object(Bucket="kv", Key="c", Body=b"v")


def test_a_quota_counts_bytes(make_service: Any) -> None:
    service = make_service()
    limits = {"blockSize": 1, "notificationSize": -1, "blockSizeInCount": -1, "notificationSizeInCount": -1}
    bucket = service.index.create_bucket("ns1", "kv", "kvlab", {access.QUOTA: limits})
    access.check_quota(bucket, service.index, "k", 1 << 30)
    with pytest.raises(Exception, match="quota is exceeded"):
        access.check_quota(bucket, service.index, "k", (1 << 30) + 1)


def test_a_locked_bucket_is_shut_for_everybody(array: Managed, api: Api, place: str) -> None:
    client = owner(array, place)
    client.put_object(Bucket="kv", Key="k", Body=b"v")
    api.ok("PUT", "/object/bucket/kv/lock/true", {"namespace": place})
    assert refused(client.get_object, Bucket="kv", Key="k") == ("AccessDenied", 403)
    assert refused(client.put_object, Bucket="kv", Key="k", Body=b"") == ("AccessDenied", 403)
    api.ok("PUT", "/object/bucket/kv/lock/false", {"namespace": place})
    assert client.get_object(Bucket="kv", Key="k")["Body"].read() == b"v"


def test_retention_of_a_bucket_keeps_its_objects(array: Managed, api: Api, place: str) -> None:
    client = owner(array, place)
    client.put_object(Bucket="kv", Key="k", Body=b"v")
    api.ok("PUT", "/object/bucket/kv/retention", {"namespace": place, "period": 3600})
    assert refused(client.delete_object, Bucket="kv", Key="k") == ("ObjectUnderRetention", 409)
    api.ok("PUT", "/object/bucket/kv/retention", {"namespace": place, "period": 0})
    client.delete_object(Bucket="kv", Key="k")


# Emptying


def gone(api: Api, place: str) -> bool:
    return api.send("GET", f"/object/bucket/kv/info?namespace={place}").status_code == 400


def test_an_empty_bucket_goes_at_once(api: Api, place: str) -> None:
    api.ok("POST", f"/object/bucket/kv/deactivate?namespace={place}")
    assert gone(api, place)
    assert api.ok("GET", f"/object/bucket/kv/empty-bucket-status?namespace={place}")["status"] == "NOT_FOUND"


def test_a_bucket_with_objects_stays_unless_it_is_to_be_emptied(array: Managed, api: Api, place: str) -> None:
    client, path = owner(array, place), f"/object/bucket/kv/deactivate?namespace={place}"
    number, files = emptying.BATCH + 5, len(array.data_files())
    for n in range(number):
        client.put_object(Bucket="kv", Key=f"k{n}", Body=b"v")
    assert api.refused("POST", path) == (1020, 400)
    api.ok("POST", f"{path}&emptyBucket=true", status=202)
    # The task runs behind the reply, a batch at a time, so the bucket is still there and read-only.
    assert refused(client.put_object, Bucket="kv", Key="new", Body=b"")[0] in ("AccessDenied", "NoSuchBucket")
    wait_until(lambda: gone(api, place))
    status = api.ok("GET", f"/object/bucket/kv/empty-bucket-status?namespace={place}")
    assert (status["status"], status["entries_deleted"], status["approx_object_count"]) == (
        "DONE",
        number,
        number,
    )
    assert len(array.data_files()) == files
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": place})
    assert api.ok("GET", f"/object/bucket/kv/empty-bucket-status?namespace={place}")["status"] == "NOT_FOUND"


def test_what_is_under_retention_lets_the_task_fail_and_the_bucket_stay(
    array: Managed, api: Api, place: str
) -> None:
    client = owner(array, place)
    client.put_object(Bucket="kv", Key="k", Body=b"v")
    api.ok("PUT", "/object/bucket/kv/retention", {"namespace": place, "period": 3600})
    api.ok("POST", f"/object/bucket/kv/deactivate?namespace={place}&emptyBucket=true", status=202)

    def status() -> Any:
        return api.ok("GET", f"/object/bucket/kv/empty-bucket-status?namespace={place}")

    wait_until(lambda: status()["status"] == "FAILED")
    assert status()["failed_to_delete_due_to_retention"] == 1
    assert api.ok("GET", f"/object/bucket/kv/info?namespace={place}")["is_empty_bucket_in_progress"] is False
    client.put_object(Bucket="kv", Key="other", Body=b"v")  # no longer read-only


def test_a_task_goes_on_after_the_array_was_killed(array: Managed, place: str) -> None:
    client = owner(array, place)
    for n in range(emptying.BATCH * 2):
        client.put_object(Bucket="kv", Key=f"k{n}", Body=b"v")
    path = f"/object/bucket/kv/deactivate?namespace={place}&emptyBucket=true"
    array.enter().ok("POST", path, status=202)
    array.kill()
    array.start()
    again = array.enter()
    wait_until(lambda: gone(again, place))


# IAM


def iam(api: Api, place: str, action: str, **parameters: str) -> Any:
    return api.ok("POST", f"/iam?{urlencode({'Action': action, **parameters})}", x_emc_namespace=place)


def iam_refused(api: Api, place: str, action: str, **parameters: str) -> tuple[str, int]:
    reply = api.send("POST", f"/iam?{urlencode({'Action': action, **parameters})}", x_emc_namespace=place)
    assert set(reply.json()) == {"Code", "Message"}
    return reply.json()["Code"], reply.status_code


READ = json.dumps(
    {"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::kv/*"}}
)


def test_an_iam_user_may_do_what_its_policies_allow(array: Managed, api: Api, place: str) -> None:
    owner(array, place).put_object(Bucket="kv", Key="k", Body=b"v")
    made = iam(api, place, "CreateUser", UserName="reader")["CreateUserResult"]["User"]
    assert made["Arn"] == f"urn:ecs:iam::{place}:user/reader"
    key = iam(api, place, "CreateAccessKey", UserName="reader")["CreateAccessKeyResult"]["AccessKey"]
    assert re.fullmatch("AKIA[0-9A-F]{16}", key["AccessKeyId"])
    client = array.client(key["AccessKeyId"], key["SecretAccessKey"])
    assert refused(client.get_object, Bucket="kv", Key="k") == ("AccessDenied", 403)
    iam(api, place, "PutUserPolicy", UserName="reader", PolicyName="read", PolicyDocument=READ)
    assert client.get_object(Bucket="kv", Key="k")["Body"].read() == b"v"
    assert refused(client.put_object, Bucket="kv", Key="k", Body=b"") == ("AccessDenied", 403)
    assert refused(client.create_bucket, Bucket="mine") == ("AccessDenied", 403)
    found = iam(api, place, "GetUserPolicy", UserName="reader", PolicyName="read")["GetUserPolicyResult"]
    assert json.loads(found["PolicyDocument"]) == json.loads(READ)
    iam(api, place, "UpdateAccessKey", UserName="reader", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert refused(client.get_object, Bucket="kv", Key="k") == ("InvalidAccessKeyId", 403)
    iam(api, place, "UpdateAccessKey", UserName="reader", AccessKeyId=key["AccessKeyId"], Status="Active")
    iam(api, place, "DeleteUserPolicy", UserName="reader", PolicyName="read")
    assert refused(client.get_object, Bucket="kv", Key="k") == ("AccessDenied", 403)


def test_a_full_access_user_owns_buckets_as_the_namespaces_root(array: Managed, api: Api, place: str) -> None:
    iam(api, place, "CreateUser", UserName="ops")
    key = iam(api, place, "CreateAccessKey", UserName="ops")["CreateAccessKeyResult"]["AccessKey"]
    iam(api, place, "AttachUserPolicy", UserName="ops", PolicyArn="urn:ecs:iam:::policy/ECSS3FullAccess")
    client = array.client(key["AccessKeyId"], key["SecretAccessKey"])
    client.create_bucket(Bucket="of-iam")
    found = api.ok("GET", f"/object/bucket/of-iam/info?namespace={place}")
    assert found["owner"] == f"urn:ecs:iam::{place}:root"
    client.put_object(Bucket="of-iam", Key="k", Body=b"v")
    assert [b["Name"] for b in client.list_buckets()["Buckets"]] == ["of-iam"]
    attached = iam(api, place, "ListAttachedUserPolicies", UserName="ops")["ListAttachedUserPoliciesResult"]
    assert attached["AttachedPolicies"] == ["urn:ecs:iam:::policy/ECSS3FullAccess"]
    iam(api, place, "DetachUserPolicy", UserName="ops", PolicyArn="urn:ecs:iam:::policy/ECSS3FullAccess")
    assert refused(client.get_object, Bucket="of-iam", Key="k") == ("AccessDenied", 403)


def test_a_managed_policy_is_made_attached_and_removed(api: Api, place: str) -> None:
    made = iam(api, place, "CreatePolicy", PolicyName="read", PolicyDocument=READ)["CreatePolicyResult"]
    arn = made["Policy"]["Arn"]
    assert iam_refused(api, place, "CreatePolicy", PolicyName="read", PolicyDocument=READ)[1] == 409
    iam(api, place, "CreateUser", UserName="u")
    iam(api, place, "AttachUserPolicy", UserName="u", PolicyArn=arn)
    found = iam(api, place, "GetPolicy", PolicyArn=arn)["GetPolicyResult"]["Policy"]
    assert found["AttachmentCount"] == 1
    assert iam_refused(api, place, "DeletePolicy", PolicyArn=arn) == ("DeleteConflict", 409)
    iam(api, place, "DetachUserPolicy", UserName="u", PolicyArn=arn)
    iam(api, place, "DeletePolicy", PolicyArn=arn)
    assert iam_refused(api, place, "GetPolicy", PolicyArn=arn) == ("NoSuchEntity", 404)


def test_two_access_keys_and_no_secret_after_the_first_time(api: Api, place: str) -> None:
    iam(api, place, "CreateUser", UserName="u")
    keys = [iam(api, place, "CreateAccessKey", UserName="u") for _ in range(2)]
    assert iam_refused(api, place, "CreateAccessKey", UserName="u") == ("LimitExceeded", 409)
    listed = iam(api, place, "ListAccessKeys", UserName="u")
    for key in keys:
        assert key["CreateAccessKeyResult"]["AccessKey"]["SecretAccessKey"] not in json.dumps(listed)
    assert iam_refused(api, place, "DeleteUser", UserName="u") == ("DeleteConflict", 409)
    for key in listed["ListAccessKeysResult"]["AccessKeyMetadata"]:
        iam(api, place, "DeleteAccessKey", UserName="u", AccessKeyId=key["AccessKeyId"])
    iam(api, place, "DeleteUser", UserName="u")
    assert iam(api, place, "ListUsers")["ListUsersResult"]["Users"] == []


@pytest.mark.parametrize(
    ("action", "parameters", "code"),
    [
        ("GetUser", {"UserName": "none"}, ("NoSuchEntity", 404)),
        ("GetUser", {}, ("ValidationError", 400)),
        ("CreateUser", {"UserName": "a b"}, ("ValidationError", 400)),
        ("CreateUser", {"UserName": "x", "Path": "/p/"}, ("ValidationError", 400)),
        ("CreateGroup", {"GroupName": "g"}, ("InvalidAction", 400)),
        (
            "PutUserPolicy",
            {"UserName": "u", "PolicyName": "p", "PolicyDocument": "{"},
            ("MalformedPolicyDocument", 400),
        ),
        (
            "PutUserPolicy",
            {"UserName": "u", "PolicyName": "p", "PolicyDocument": "[]"},
            ("MalformedPolicyDocument", 400),
        ),
        ("CreateUser", {"UserName": "u"}, ("EntityAlreadyExists", 409)),
        ("AttachUserPolicy", {"UserName": "u", "PolicyArn": "urn:none"}, ("NoSuchEntity", 404)),
        ("DeleteAccessKey", {"UserName": "u", "AccessKeyId": "none"}, ("NoSuchEntity", 404)),
        ("UpdateAccessKey", {"UserName": "u", "Status": "Odd"}, ("ValidationError", 400)),
    ],
)
def test_iam_refuses_by_name(
    api: Api, place: str, action: str, parameters: dict[str, str], code: tuple[str, int]
) -> None:
    iam(api, place, "CreateUser", UserName="u")
    assert iam_refused(api, place, action, **parameters) == code


def test_iam_of_a_namespace_that_is_not_there(api: Api) -> None:
    assert iam_refused(api, "none", "ListUsers") == ("NoSuchEntity", 404)
