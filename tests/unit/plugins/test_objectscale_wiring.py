"""What the modules of the management API make of their options; against a scripted array."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from management_array import ACCESS, Array, error

from kvlab.objectscale import management
from kvlab.objectscale.wire import Wire

SECRET = "not-a-secret-1-but-long-enough"
ABSENT = error(400, 1004)
TWO_GROUPS = {"data_service_vpool": [{"name": "rg1", "id": "urn:1"}, {"name": "rg2", "id": "urn:2"}]}
NODE = {"nodename": "n1", "version": "4.1.0.0", "status": "Good", "data_ip": "198.51.100.1"}
KEYS = "GET /object/user-secret-keys/exist/kvlab/kvlab"
ADD_KEY = "POST /object/user-secret-keys/kvlab"
BUCKET = "GET /object/bucket/kv/info?namespace=kvlab"


@pytest.fixture
def array(monkeypatch: pytest.MonkeyPatch) -> Array:
    made = Array()
    transport = httpx.MockTransport(made.handle)
    monkeypatch.setattr(management, "Wire", lambda access, *_: Wire(access, transport, made.slept.append))
    made.tell("GET /vdc/nodes", {"node": [NODE]})
    made.tell("GET /vdc/data-service/vpools", TWO_GROUPS)
    return made


@pytest.fixture
def ask(run: Any, array: Array) -> Any:
    """`ask("bucket", name=…)` runs kvlab.lab.objectscale_bucket; no result may show a secret."""
    access = {"host": ACCESS.host, "username": ACCESS.username, "password": ACCESS.password}

    def call(module: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = run(f"objectscale_{module}", **access | arguments)
        for secret in (ACCESS.password, SECRET):
            assert secret not in json.dumps(result)
        return result

    return call


def sent(array: Array, request: str) -> Any:
    """The body of the last such request."""
    index = len(array.asked) - 1 - array.asked[::-1].index(request)
    return array.bodies[index]


def with_key(secret: str) -> dict[str, Any]:
    return {"secret_key_1_exist": True, "secret_key_1_id": hashlib.sha256(secret.encode()).hexdigest()}


def test_a_session_is_one_login_for_all_that_name_its_file(ask: Any, array: Array, tmp_path: Path) -> None:
    session = {"session_file": str(tmp_path / "session")}
    assert ask("session", **session)["version"] == "4.1.0.0"
    array.tell(BUCKET, ABSENT)
    ask("info", **session)
    for group in ("rg1", "rg2"):
        ask("bucket", name="kv", namespace="kvlab", replication_group=group, **session)
    assert ask("session", state="absent", **session)["changed"] is False
    assert array.asked.count("GET /login") == array.asked.count("GET /logout") == 1
    assert array.calls.count("GET /vdc/data-service/vpools") == 1
    assert not (tmp_path / "session").exists()


def test_a_session_is_made_in_check_mode_too_for_what_follows_has_to_look(
    ask: Any, array: Array, tmp_path: Path
) -> None:
    assert ask("session", session_file=str(tmp_path / "session"), check=True)["changed"] is False
    assert array.tokens == ["token-1"]


def test_a_user_that_may_not_list_nodes_is_warned_and_not_stopped(
    ask: Any, array: Array, tmp_path: Path
) -> None:
    array.tell("GET /vdc/nodes", error(403, 3000))
    result = ask("session", session_file=str(tmp_path / "session"))
    assert result["version"] is None
    assert "release is not known" in str(result["warnings"])


def test_an_unknown_release_is_refused_at_login(ask: Any, array: Array, tmp_path: Path) -> None:
    array.tell("GET /vdc/nodes", {"node": [NODE | {"version": "3.6.0.0"}]})
    assert "knows ECS 3.8 and ObjectScale 4.x" in ask("session", session_file=str(tmp_path / "s"))["msg"]


def test_info_gathers_what_a_role_needs(ask: Any, array: Array) -> None:
    array.tell("GET /object/vdcs/vdc/local", {"vdcName": "vdc1"})
    array.tell("GET /license", error(404, 2000))
    result = ask("info")
    assert {name: result[name] for name in ("changed", "version", "vdc", "data_addresses", "licence")} == {
        "changed": False,
        "version": "4.1.0.0",
        "vdc": "vdc1",
        "data_addresses": ["198.51.100.1"],
        "licence": None,
    }
    assert result["replication_groups"] == {"rg1": "urn:1", "rg2": "urn:2"}
    assert len(array.calls) == 4


def test_a_namespace_s_groups_are_given_by_name_and_its_lists_have_no_order(ask: Any, array: Array) -> None:
    path = "GET /object/namespaces/namespace/kvlab"
    array.tell(path, ABSENT)
    wanted = {"replication_group": "rg2", "allowed_replication_groups": ["rg2", "rg1"], "admins": ["b", "a"]}
    assert ask("namespace", name="kvlab", **wanted)["changed"]
    body = sent(array, "POST /object/namespaces/namespace")
    assert body["default_data_services_vpool"] == "urn:2"
    array.tell(path, body | {"allowed_vpools_list": ["urn:2", "urn:1"], "namespace_admins": "b,a"})
    assert not ask("namespace", name="kvlab", **wanted)["changed"]


def test_tags_are_text_whatever_yaml_made_of_them(ask: Any, array: Array) -> None:
    array.tell("GET /object/users/kvlab/info?namespace=kvlab", ABSENT)
    ask("object_user", name="kvlab", namespace="kvlab", tags={"floor": 1})
    assert sent(array, "POST /object/users")["tags"] == [{"name": "floor", "value": "1"}]
    array.tell(BUCKET, ABSENT)
    ask("bucket", name="kv", namespace="kvlab", tags={"floor": 1})
    assert sent(array, "POST /object/bucket")["TagSet"] == [{"Key": "floor", "Value": "1"}]


@pytest.mark.parametrize("module", ["namespace", "object_user", "bucket", "iam_user"])
def test_check_mode_shows_what_would_be_made_and_only_looks(ask: Any, array: Array, module: str) -> None:
    array.tell("GET /object/namespaces/namespace/kv", ABSENT)
    array.tell("GET /object/users/kv/info?namespace=kvlab", ABSENT)
    array.tell(BUCKET, ABSENT)
    for action in ("GetUser", "ListAccessKeys"):
        array.tell(
            f"POST /iam?Action={action}&UserName=kv", httpx.Response(404, json={"Code": "NoSuchEntity"})
        )
    place = {} if module == "namespace" else {"namespace": "kvlab"}
    result = ask(module, name="kv", check=True, **place)
    assert result["changed"]
    assert (result["diff"]["before"]["state"], result["diff"]["after"]["state"]) == ("absent", "present")
    assert [line for line in array.calls if not line.startswith(("GET", "POST /iam?Action=Get"))] == []
    assert not ask(module, name="kv", state="absent", **place)["changed"]


def test_a_bucket_is_asked_only_for_what_the_task_names(ask: Any, array: Array) -> None:
    array.tell(BUCKET, ABSENT)
    ask("bucket", name="kv", namespace="kvlab", owner="kvlab", versioning="suspended", encryption=False)
    assert sent(array, "POST /object/bucket") == {
        "name": "kv",
        "namespace": "kvlab",
        "owner": "kvlab",
        "versioning_status": "Suspended",
        "is_encryption_enabled": False,
    }


def test_a_bucket_goes_with_its_objects_only_if_that_is_said(ask: Any, array: Array) -> None:
    array.tell(BUCKET, {"name": "kv"})
    path = "POST /object/bucket/kv/deactivate?namespace=kvlab&emptyBucket="
    array.tell(f"{path}false", error(400, 1020))
    array.tell(f"{path}true", httpx.Response(202))
    assert "say empty: true" in ask("bucket", name="kv", namespace="kvlab", state="absent")["msg"]
    result = ask("bucket", name="kv", namespace="kvlab", state="absent", empty=True)
    assert (result["changed"], result["emptying"]) == (True, True)


def test_a_policy_is_put_and_then_found_to_be_so(ask: Any, array: Array) -> None:
    path = "/object/bucket/kv/policy?namespace=kvlab"
    policy = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject"}]}
    array.tell(f"GET {path}", ABSENT, {"Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"]}]})
    assert ask("bucket_policy", bucket="kv", namespace="kvlab", policy=policy)["changed"]
    assert sent(array, f"PUT {path}") == policy
    assert not ask("bucket_policy", bucket="kv", namespace="kvlab", policy=policy)["changed"]
    assert ask("bucket_policy", bucket="kv", namespace="kvlab", policy=policy, state="absent")["changed"]
    assert array.calls[-1] == f"DELETE {path}"
    assert "policy" in ask("bucket_policy", bucket="kv", namespace="kvlab")["msg"]


def test_a_key_is_sent_once_and_never_shown(ask: Any, array: Array) -> None:
    array.tell(KEYS, {}, with_key(SECRET))
    key = {"user": "kvlab", "namespace": "kvlab", "secret_key": SECRET}
    assert ask("secret_key", **key)["changed"]
    assert sent(array, ADD_KEY) == {"namespace": "kvlab", "secretkey": SECRET}
    assert not ask("secret_key", **key)["changed"]


def test_a_key_file_is_private_and_made_before_the_array_is_told(
    ask: Any, array: Array, tmp_path: Path
) -> None:
    """The array's answer is lost, and the next run finds the same key."""
    key = {"user": "kvlab", "namespace": "kvlab", "secret_file": str(tmp_path / "key")}
    array.tell(KEYS, {})
    array.tell(ADD_KEY, httpx.ReadError("reset"))
    assert "run again" in ask("secret_key", **key)["msg"]
    secret = (tmp_path / "key").read_text()
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert sent(array, ADD_KEY)["secretkey"] == secret
    array.tell(KEYS, with_key(secret))
    result = ask("secret_key", **key)
    assert not result["changed"]
    assert secret not in json.dumps(result)


def test_a_key_that_the_array_repeats_in_its_refusal_is_not_shown(
    ask: Any, array: Array, tmp_path: Path
) -> None:
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text(SECRET)
    array.tell(KEYS, {})
    array.tell(ADD_KEY, error(400, 1008, f"{SECRET} is too simple"))
    result = ask("secret_key", user="kvlab", namespace="kvlab", secret_file=str(tmp_path / "key"))
    assert "is too simple (code 1008)" in result["msg"]


@pytest.mark.parametrize("more", [{"check": True}, {}], ids=["check mode", "refused"])
def test_no_key_file_is_left_where_the_key_was_not_to_be_sent(
    ask: Any, array: Array, tmp_path: Path, more: dict[str, Any]
) -> None:
    array.tell(KEYS, {} if more else with_key("another"))
    result = ask("secret_key", user="kvlab", namespace="kvlab", secret_file=str(tmp_path / "key"), **more)
    assert result.get("changed", False) is bool(more)
    assert not (tmp_path / "key").exists()
    assert ADD_KEY not in array.calls


def test_a_key_goes_by_its_id_and_only_when_it_is_to_go(ask: Any, array: Array, tmp_path: Path) -> None:
    user = {"user": "kvlab", "namespace": "kvlab"}
    array.tell(KEYS, with_key(SECRET))
    unwanted = with_key(SECRET)["secret_key_1_id"]
    assert "key_id names a key to remove" in ask("secret_key", key_id=unwanted, **user)["msg"]
    missing = ask("secret_key", secret_file=str(tmp_path / "key"), state="absent", **user)
    assert "say by key_id which key is to go" in missing["msg"]
    for named in ({"key_id": unwanted}, {"secret_key": SECRET}):
        assert ask("secret_key", state="absent", **named, **user)["changed"]
        assert sent(array, f"{ADD_KEY}/deactivate") == {"namespace": "kvlab", "secret_key_id": unwanted}


def test_an_iam_user_s_key_is_kept_and_made_only_where_it_can_be(
    ask: Any, array: Array, tmp_path: Path
) -> None:
    listing = "POST /iam?Action=ListAccessKeys&UserName=reader"
    making = "POST /iam?Action=CreateAccessKey&UserName=reader"
    array.tell("POST /iam?Action=GetUser&UserName=reader", {"GetUserResult": {}})
    array.tell(listing, {"ListAccessKeysResult": {"AccessKeyMetadata": []}})
    made = {"AccessKeyId": "AKIA1", "SecretAccessKey": SECRET}
    array.tell(making, {"CreateAccessKeyResult": {"AccessKey": made}})
    user = {"name": "reader", "namespace": "kvlab"}

    nowhere = ask("iam_user", access_key_file=str(tmp_path / "no" / "key"), **user)
    assert "cannot be written" in nowhere["msg"]
    assert making not in array.calls

    path = tmp_path / "key"
    assert ask("iam_user", access_key_file=str(path), check=True, **user)["changed"]
    assert not path.exists()
    assert ask("iam_user", access_key_file=str(path), **user)["changed"]
    assert json.loads(path.read_text()) == {"access_key": "AKIA1", "secret_key": SECRET}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    array.tell(listing, {"ListAccessKeysResult": {"AccessKeyMetadata": [made]}})
    assert not ask("iam_user", access_key_file=str(path), **user)["changed"]
    path.write_text("AKIA1")
    assert "is not JSON" in ask("iam_user", access_key_file=str(path), **user)["msg"]


def test_a_certificate_that_is_not_verified_is_warned_of(ask: Any, array: Array) -> None:
    warning = f"certificate of {ACCESS.host} is not verified"
    # Ansible keeps the warnings of a process, so the silent run comes first.
    assert warning not in str(ask("info"))
    assert warning in str(ask("info", validate_certs=False)["warnings"])


def test_what_goes_wrong_is_one_sentence_and_the_login_ends(ask: Any, array: Array) -> None:
    result = ask("bucket", name="kv", namespace="kvlab", replication_group="rg3")
    assert result["failed"]
    assert "has no replication group rg3 (it has: rg1, rg2)" in result["msg"]
    assert array.tokens == []
