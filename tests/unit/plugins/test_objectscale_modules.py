"""The modules of the management API against the emulated array, over TLS."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objectscale_array import PASSWORD, Array

from kvlab.objectscale import s3

SECRET, NEXT = "not-a-secret-1-but-long-enough", "not-a-secret-2-but-long-enough"
Result = dict[str, Any]


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Array]:
    running = Array(tmp_path_factory.mktemp("array"))
    try:
        yield running.start()
    finally:
        running.stop()


_count = iter(range(10**6))


@pytest.fixture
def ask(run: Any, array: Array) -> Any:
    """`ask("bucket", name=…)` runs kvlab.lab.objectscale_bucket."""

    def call(module: str, **arguments: Any) -> Result:
        result: Result = run(f"objectscale_{module}", **array.access | arguments)
        assert PASSWORD not in json.dumps(result)
        return result

    return call


@pytest.fixture
def namespace(ask: Any) -> str:
    """A namespace of the test's own with the object user of the same name."""
    name = f"ns{next(_count)}"
    assert ask("namespace", name=name, replication_group=group(ask))["changed"]
    assert ask("object_user", name=name, namespace=name)["changed"]
    return name


def group(ask: Any) -> str:
    """The name of a replication group that the array has."""
    return sorted(ask("info")["replication_groups"])[0]


def key_id(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def settled(ask: Any, module: str, **arguments: Any) -> Result:
    """Bring something about: first seen in check mode, then done, then found to be so."""
    checked = ask(module, check=True, **arguments)
    assert checked.get("changed"), checked
    done = ask(module, **arguments)
    assert (done["changed"], done["diff"]) == (True, checked["diff"])
    again = ask(module, **arguments)
    assert not again["changed"], again["diff"]
    assert again["diff"]["after"] == done["diff"]["after"]
    return done


def test_info_says_what_the_array_is(ask: Any) -> None:
    found = ask("info")
    assert not found["changed"]
    assert found["version"].startswith("4.")
    assert found["nodes"][0]["data_addresses"] == found["data_addresses"][:1]
    assert all(urn.startswith("urn:") for urn in found["replication_groups"].values())
    assert found["vdc"]


def test_one_login_serves_a_play(ask: Any, array: Array, tmp_path: Path) -> None:
    session = {"session_file": str(tmp_path / "session")}
    before = len(array.requests())
    assert ask("session", **session)["version"].startswith("4.")
    assert stat.S_IMODE((tmp_path / "session").stat().st_mode) == 0o600
    ask("info", **session)
    ask("object_user", name="nobody", namespace="nowhere", state="absent", **session)
    assert not ask("session", state="absent", **session)["changed"]
    assert not (tmp_path / "session").exists()
    asked = array.requests()[before:]
    assert [line for line in asked if line.startswith("GET /log")] == ["GET /login", "GET /logout"]


def test_a_namespace_is_made_changed_and_removed(ask: Any) -> None:
    name = f"ns{next(_count)}"
    settled(ask, "namespace", name=name, replication_group=group(ask), encryption=True, quota_gb=100)
    done = settled(ask, "namespace", name=name, quota_gb=200, quota_notify_gb=150)
    assert done["diff"]["before"]["quota_gb"] == 100
    settled(ask, "namespace", name=name, quota_gb=-1, quota_notify_gb=-1)
    settled(ask, "namespace", name=name, available_in_outage=True, bucket_quota_gb=5)
    settled(ask, "namespace", name=name, allowed_replication_groups=[group(ask)])
    settled(ask, "namespace", name=name, state="absent")


def test_what_is_fixed_on_a_namespace_is_refused(ask: Any, namespace: str) -> None:
    result = ask("namespace", name=namespace, compliance=True)
    assert "compliance is False, not True. That is fixed at creation" in result["msg"]


def test_a_namespace_that_holds_something_stays(ask: Any, namespace: str) -> None:
    assert "remove first what is in it" in ask("namespace", name=namespace, state="absent")["msg"]


def test_a_user_is_made_changed_and_removed(ask: Any, namespace: str) -> None:
    user = {"name": f"{namespace}-user", "namespace": namespace}
    settled(ask, "object_user", **user, tags={"lab": "one", "floor": 1})
    settled(ask, "object_user", **user, tags={"lab": "two", "row": "a"})
    settled(ask, "object_user", **user, tags={})
    settled(ask, "object_user", **user, locked=True)
    settled(ask, "object_user", **user, locked=False)
    settled(ask, "object_user", **user, state="absent")


def test_a_user_s_name_is_not_taken_from_another_namespace(ask: Any, namespace: str) -> None:
    other = f"ns{next(_count)}"
    ask("namespace", name=other, replication_group=group(ask))
    result = ask("object_user", name=namespace, namespace=other)
    assert result["failed"]
    assert "taken" in result["msg"]


def test_a_key_is_given_and_never_shown(ask: Any, namespace: str, array: Array) -> None:
    user = {"user": namespace, "namespace": namespace}
    done = settled(ask, "secret_key", **user, secret_key=SECRET)
    assert done["key_ids"] == [key_id(SECRET)]
    assert SECRET not in json.dumps(done | {"invocation": None})
    s3.client(array.s3, namespace, SECRET).list_buckets()


def test_a_key_is_rotated_in_two_steps(ask: Any, namespace: str, array: Array) -> None:
    user = {"user": namespace, "namespace": namespace}
    ask("secret_key", **user, secret_key=SECRET)
    refused = ask("secret_key", **user, secret_key=NEXT)
    assert "set rotate: true" in refused["msg"]
    assert "is not there yet" in ask("secret_key", **user, secret_key=NEXT, expire_old=True)["msg"]
    done = settled(ask, "secret_key", **user, secret_key=NEXT, rotate=True)
    assert done["key_ids"] == sorted([key_id(SECRET), key_id(NEXT)])
    for secret in (SECRET, NEXT):
        s3.client(array.s3, namespace, secret).list_buckets()
    settled(ask, "secret_key", **user, secret_key=NEXT, expire_old=True)
    with pytest.raises(Exception, match="InvalidAccessKeyId|SignatureDoesNotMatch"):
        s3.client(array.s3, namespace, SECRET).list_buckets()
    s3.client(array.s3, namespace, NEXT).list_buckets()


def test_a_third_key_is_refused(ask: Any, namespace: str) -> None:
    user = {"user": namespace, "namespace": namespace}
    for secret in (SECRET, NEXT):
        ask("secret_key", **user, secret_key=secret, rotate=True)
    assert "no third is allowed" in ask("secret_key", **user, secret_key=f"{NEXT}-3", rotate=True)["msg"]
    settled(ask, "secret_key", **user, key_id=key_id(SECRET), state="absent")


def test_a_key_file_is_made_private_and_kept(ask: Any, namespace: str, array: Array, tmp_path: Path) -> None:
    arguments = {"user": namespace, "namespace": namespace, "secret_file": str(tmp_path / "key")}
    assert ask("secret_key", check=True, **arguments)["changed"]
    assert not (tmp_path / "key").exists()
    assert ask("secret_key", **arguments)["changed"]
    secret = (tmp_path / "key").read_text()
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    again = ask("secret_key", **arguments)
    assert not again["changed"]
    assert secret not in json.dumps(again)
    s3.client(array.s3, namespace, secret).list_buckets()


def test_a_refused_rotation_leaves_no_key_file(ask: Any, namespace: str, tmp_path: Path) -> None:
    user = {"user": namespace, "namespace": namespace}
    ask("secret_key", **user, secret_key=SECRET)
    assert ask("secret_key", **user, secret_file=str(tmp_path / "key"))["failed"]
    assert list(tmp_path.glob("*key*")) == []


def test_the_key_of_a_user_that_is_not_there_yet_is_a_plan_in_check_mode_only(
    ask: Any, namespace: str
) -> None:
    user = {"user": "nobody", "namespace": namespace, "secret_key": SECRET}
    assert ask("secret_key", check=True, **user)["changed"]
    assert "make that first" in ask("secret_key", **user)["msg"]


def test_a_bucket_is_made_changed_and_removed(ask: Any, namespace: str) -> None:
    bucket = {"name": "kv", "namespace": namespace}
    made = {"owner": namespace, "replication_group": group(ask), "quota_gb": 10, "quota_notify_gb": 9}
    made |= {"retention": 0, "encryption": True, "head_type": "s3", "filesystem": False}
    settled(ask, "bucket", **bucket, **made, tags={"lab": "one"})
    settled(ask, "bucket", **bucket, quota_gb=20, tags={"lab": "two", "row": "a"})
    settled(ask, "bucket", **bucket, quota_gb=-1, quota_notify_gb=-1)
    settled(ask, "bucket", **bucket, retention=60)
    settled(ask, "bucket", **bucket, retention=0, autocommit_period=60)
    settled(ask, "bucket", **bucket, available_in_outage=True)
    settled(ask, "bucket", **bucket, locked=True)
    settled(ask, "bucket", **bucket, locked=False)
    settled(ask, "bucket", **bucket, tags={})
    settled(ask, "bucket", **bucket, state="absent")


def test_a_bucket_s_owner_can_use_it_and_a_new_owner_takes_it_over(
    ask: Any, namespace: str, array: Array
) -> None:
    ask("secret_key", user=namespace, namespace=namespace, secret_key=SECRET)
    other = f"{namespace}-other"
    ask("object_user", name=other, namespace=namespace)
    ask("secret_key", user=other, namespace=namespace, secret_key=SECRET)
    ask("bucket", name="kv", namespace=namespace, owner=namespace)
    s3.client(array.s3, namespace, SECRET).put_object(Bucket="kv", Key="k", Body=b"v")
    settled(ask, "bucket", name="kv", namespace=namespace, owner=other)
    s3.client(array.s3, other, SECRET).put_object(Bucket="kv", Key="k", Body=b"v")
    with pytest.raises(Exception, match="AccessDenied"):
        s3.client(array.s3, namespace, SECRET).put_object(Bucket="kv", Key="k", Body=b"v")


def test_what_is_fixed_on_a_bucket_is_refused(ask: Any, namespace: str) -> None:
    ask("bucket", name="kv", namespace=namespace, owner=namespace, encryption=False)
    result = ask("bucket", name="kv", namespace=namespace, encryption=True, filesystem=True)
    assert "filesystem is False, not True; encryption is False, not True. That is fixed" in result["msg"]


def test_one_name_in_two_namespaces_is_two_buckets(ask: Any, namespace: str) -> None:
    other = f"ns{next(_count)}"
    ask("namespace", name=other, replication_group=group(ask))
    ask("bucket", name="kv", namespace=namespace, quota_gb=1)
    settled(ask, "bucket", name="kv", namespace=other, quota_gb=2)
    assert not ask("bucket", name="kv", namespace=namespace, quota_gb=1)["changed"]


def test_a_bucket_with_objects_goes_only_when_that_is_said(ask: Any, namespace: str, array: Array) -> None:
    ask("secret_key", user=namespace, namespace=namespace, secret_key=SECRET)
    ask("bucket", name="kv", namespace=namespace, owner=namespace)
    client = s3.client(array.s3, namespace, SECRET)
    client.put_object(Bucket="kv", Key="k", Body=b"v")
    assert "say empty: true" in ask("bucket", name="kv", namespace=namespace, state="absent")["msg"]
    assert s3.keys(client, "kv") == [("k", 1)]
    assert ask("bucket", name="kv", namespace=namespace, state="absent", empty=True)["changed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"replication_group": "no-such-group"}, "has no replication group no-such-group (it has: "),
        ({"owner": "nobody-at-all"}, "make the owner first"),
        ({"name": "bad..name"}, "is no bucket name"),
        ({"namespace": "no-such-namespace"}, "make that first"),
    ],
)
def test_bad_input_is_one_sentence(ask: Any, namespace: str, arguments: dict[str, Any], words: str) -> None:
    result = ask("bucket", **{"name": "kv", "namespace": namespace, **arguments})
    assert words in result["msg"]
    assert "Traceback" not in json.dumps(result)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"password": "wrong-password"}, "name or password is wrong"),
        ({"ca_path": None}, "the certificate of"),
        ({"host": "array.invalid"}, "the name array.invalid is not known"),
        ({"port": 9}, "nothing answers"),
    ],
)
def test_a_login_that_fails_is_one_sentence(ask: Any, arguments: dict[str, Any], words: str) -> None:
    result = ask("info", **arguments)
    assert words in result["msg"]
    assert "wrong-password" not in json.dumps(result)


def test_unverified_certificates_are_allowed_with_a_warning(ask: Any) -> None:
    result = ask("info", validate_certs=False, ca_path=None)
    assert any("is not verified" in str(warning) for warning in result["warnings"])


POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": ["reader"], "Action": ["s3:GetObject"], "Resource": ["kv/*"]}
    ],
}


def test_a_policy_is_put_changed_and_removed(ask: Any, namespace: str) -> None:
    ask("bucket", name="kv", namespace=namespace, owner=namespace)
    bucket = {"bucket": "kv", "namespace": namespace}
    settled(ask, "bucket_policy", **bucket, policy=POLICY)
    changed = json.loads(json.dumps(POLICY).replace("s3:GetObject", "s3:ListBucket"))
    settled(ask, "bucket_policy", **bucket, policy=changed)
    settled(ask, "bucket_policy", **bucket, state="absent")


def test_an_iam_user_is_made_changed_and_removed(ask: Any, namespace: str, tmp_path: Path) -> None:
    user = {"name": "reader", "namespace": namespace, "access_key_file": str(tmp_path / "key.json")}
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::kv/*"}
    document = {"Version": "2012-10-17", "Statement": [allow]}
    done = settled(ask, "iam_user", **user, policies={"read": document})
    key = json.loads((tmp_path / "key.json").read_text())
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600
    assert key["secret_key"] not in json.dumps(done)
    settled(ask, "iam_user", **user, policies={"list": document})
    settled(ask, "iam_user", **user, state="absent")
