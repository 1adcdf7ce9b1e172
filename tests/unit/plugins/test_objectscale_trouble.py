"""The modules of the management API when the array, or the way to it, is in trouble."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from objectscale_array import PASSWORD, Array

from kvlab.objectscale import buckets, namespaces, s3
from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.management import Management
from kvlab.objectscale.session import SessionFile
from kvlab.objectscale.wire import Access

SECRET = "not-a-secret-1-but-long-enough"
Result = dict[str, Any]
_numbers = count()


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Array]:
    running = Array(tmp_path_factory.mktemp("array"), locked_user="shut")
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def ask(run: Any, array: Array) -> Callable[..., Result]:
    """`ask("bucket", name=…)` runs kvlab.lab.objectscale_bucket."""

    def call(module: str, **arguments: Any) -> Result:
        result: Result = run(f"objectscale_{module}", **array.access | arguments)
        assert PASSWORD not in json.dumps(result)
        assert "Traceback" not in json.dumps(result)
        return result

    return call


@pytest.fixture
def namespace(ask: Any) -> str:
    """A namespace of the test's own with the object user of the same name, which has a key."""
    name = f"trouble{next(_numbers)}"
    ask("namespace", name=name)
    ask("object_user", name=name, namespace=name)
    ask("secret_key", user=name, namespace=name, secret_key=SECRET)
    return name


@contextmanager
def fault(array: Array, kind: str, **fields: Any) -> Iterator[Callable[[], int]]:
    """Arm a fault; gives a function that says how often it has struck."""
    url = f"http://127.0.0.1:{array.admin_port}/faults"
    httpx.post(url, json={"kind": kind, **fields}).raise_for_status()

    def hits() -> int:
        return int(httpx.get(url).json()["faults"][0]["hits"])

    try:
        yield hits
    finally:
        httpx.delete(url).raise_for_status()


def test_a_busy_array_is_asked_again(ask: Any, array: Array, namespace: str) -> None:
    with fault(array, "busy", op="Management.GetBucketInfo", count=2) as hits:
        assert ask("bucket", name="kv", namespace=namespace)["changed"]
        assert hits() == 2


def test_an_array_that_stays_busy_is_named_and_a_rerun_finishes(
    ask: Any, array: Array, namespace: str
) -> None:
    with fault(array, "failing", op="Management.CreateBucket"):
        result = ask("bucket", name="kv", namespace=namespace)
        assert result["failed"]
        assert "code 30024" in result["msg"]
        assert "run again" in result["msg"]
    assert ask("bucket", name="kv", namespace=namespace)["changed"]
    assert not ask("bucket", name="kv", namespace=namespace)["changed"]


def test_a_read_that_breaks_is_repeated(ask: Any, array: Array, namespace: str) -> None:
    with fault(array, "reset-before", op="Management.GetBucketInfo", count=1) as hits:
        assert ask("bucket", name="kv", namespace=namespace)["changed"]
        assert hits() == 1


def test_a_creation_whose_answer_is_lost_is_found_by_the_next_run(
    ask: Any, array: Array, namespace: str
) -> None:
    with fault(array, "reset-after", op="Management.CreateBucket", count=1):
        result = ask("bucket", name="kv", namespace=namespace)
        assert result["failed"]
        assert "what was done is found then" in result["msg"]
    assert not ask("bucket", name="kv", namespace=namespace)["changed"]


def test_a_key_whose_answer_is_lost_is_not_made_twice(ask: Any, array: Array, namespace: str) -> None:
    user = {"user": namespace, "namespace": namespace, "secret_key": f"{SECRET}-2", "rotate": True}
    with fault(array, "reset-after", op="Management.CreateSecretKey", count=1):
        assert ask("secret_key", **user)["failed"]
    again = ask("secret_key", **user)
    assert not again["changed"]
    assert len(again["key_ids"]) == 2


def test_a_token_that_ends_in_the_middle_means_one_new_login(
    ask: Any, array: Array, namespace: str, tmp_path: Path
) -> None:
    session = {"session_file": str(tmp_path / "session")}
    ask("session", **session)
    before = len(array.requests())
    with fault(array, "token-expired", op="Management.CreateBucket", count=1) as hits:
        assert ask("bucket", name="kv", namespace=namespace, **session)["changed"]
        assert hits() == 1
    assert array.requests()[before:].count("GET /login") == 1
    assert ask("bucket", name="kv", namespace=namespace, **session)["changed"] is False
    ask("session", state="absent", **session)


def test_a_user_with_a_hundred_tokens_is_told_so(ask: Any, array: Array) -> None:
    with httpx.Client(base_url=array.url, verify=array.trust(), auth=("root", PASSWORD)) as http:
        while http.get("/login").is_success:
            pass
        result = ask("info")
        assert "holds as many tokens as the array allows (100)" in result["msg"]
    # An administrator's other plays are ended by hand only; here the array's restart does it.
    array.stop()
    array.start()
    assert not ask("info").get("failed")


def test_a_locked_administrator_is_told_so(ask: Any) -> None:
    assert "is locked; let an administrator unlock it" in ask("info", username="shut")["msg"]


def test_a_missing_licence_is_told(ask: Any, array: Array, namespace: str) -> None:
    with fault(array, "unlicensed"):
        assert "install a valid licence" in ask("bucket", name="kv", namespace=namespace)["msg"]


def test_a_quota_under_what_is_stored_is_refused(ask: Any, array: Array, namespace: str) -> None:
    ask("bucket", name="kv", namespace=namespace, owner=namespace)
    access = Access("127.0.0.1", "root", PASSWORD, array.port, ca_path=str(array.trust_file))
    limits = {"blockSize": -1, "notificationSize": -1, "namespace": namespace}
    client = s3.client(array.s3, namespace, SECRET)
    for key in ("a", "b"):
        client.put_object(Bucket="kv", Key=key, Body=b"v")
    with Management(access) as api, pytest.raises(Exception, match="under the 2 objects") as caught:
        api.send(buckets.Call("PUT", "/object/bucket/kv/quota", "quota", limits | {"blockSizeInCount": 1}))
    assert "correct the value" in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("owner", "OTHER"),
        ("quota_gb", 7),
        ("quota_notify_gb", 3),
        ("retention", 60),
        ("autocommit_period", 30),
        ("available_in_outage", True),
        ("locked", True),
        ("tags", {"lab": "one"}),
    ],
)
def test_each_setting_that_differs_is_changed_alone(
    ask: Any, namespace: str, setting: str, value: Any
) -> None:
    if value == "OTHER":
        value = f"{namespace}-other"
        ask("object_user", name=value, namespace=namespace)
    place = {"name": "kv", "namespace": namespace}
    first = ask("bucket", **place, owner=namespace, quota_gb=9, quota_notify_gb=5)
    assert first["changed"]
    done = ask("bucket", **place, **{setting: value})
    assert done["changed"]
    assert done["diff"]["before"] == {**done["diff"]["after"], setting: done["diff"]["before"][setting]}
    assert done["diff"]["before"][setting] != value
    assert not ask("bucket", **place, **{setting: value})["changed"]


def test_two_runs_at_once_share_a_session_and_neither_is_thrown_out(array: Array, tmp_path: Path) -> None:
    """Two plays with one session file: one login; each makes half of the buckets."""
    access = Access("127.0.0.1", "root", PASSWORD, array.port, ca_path=str(array.trust_file))
    store, name = SessionFile(tmp_path / "session"), f"trouble{next(_numbers)}"
    with Management(access, store) as api:
        wanted = namespaces.Namespace(name)
        for call in namespaces.plan(wanted, namespaces.find(api, wanted)).calls:
            api.send(call)
    before = len(array.requests())

    def half(first: int) -> None:
        with Management(access, SessionFile(tmp_path / "session")) as api:
            for number in range(first, 10, 2):
                bucket = Bucket(f"kv-{number}", name)
                for call in buckets.plan(bucket, buckets.find(api, bucket)).calls:
                    api.send(call)

    with ThreadPoolExecutor(2) as both:
        list(both.map(half, (0, 1)))
    assert array.requests()[before:].count("GET /login") == 0
    with Management(access, store) as api:
        found = api.read("/object/bucket", "buckets", {"namespace": name})
        assert [bucket["name"] for bucket in found["object_bucket"]] == [f"kv-{n}" for n in range(10)]
        api.logout()
    assert array.requests()[-1] == "GET /logout"
