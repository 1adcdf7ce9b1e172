"""The storage part of a lab: configured once, kept apart by tenant, its key changed, and no secret told to anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from storage_lab import Run, StorageLab

BUCKETS = ["kv-s3-http", "kv-s3-rdma", "kvlab-roundtrip"]
TENANTS = [
    {"name": "blue", "encryption": True},
    {"name": "green", "user": "green-svc", "bucket": "kv-of-green"},
]


def step(name: str) -> list[dict[str, Any]]:
    """One step of playbooks/rotate.yml for the store, without the hosts that serve."""
    role = {"name": "kvlab.lab.objectscale", "tasks_from": name}
    return [{"hosts": "object_stores", "tasks": [{"ansible.builtin.import_role": role}]}]


def refused(call: Any, **asked: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**asked)
    return str(caught.value.response["Error"]["Code"])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageLab]:
    """A lab that was brought up once."""
    lab = StorageLab(tmp_path_factory.mktemp("lab"))
    try:
        lab.first = lab.ok(watched=True)
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module")
def with_tenants(lab: StorageLab) -> Run:
    """The run that made the tenants."""
    return lab.ok(watched=True, objectscale_tenants=TENANTS)


def test_the_first_run_makes_user_key_and_buckets_through_the_management_api(lab: StorageLab) -> None:
    client = lab.client()
    assert sorted(bucket["Name"] for bucket in client.list_buckets()["Buckets"]) == BUCKETS
    client.put_object(Bucket="kvlab-roundtrip", Key="kv", Body=b"kv")
    assert client.get_object(Bucket="kvlab-roundtrip", Key="kv")["Body"].read() == b"kv"
    assert not (lab.state / "secrets/objectscale-users.json").exists()
    assert lab.first is not None
    assert "S3 over RDMA at" in lab.first.output
    assert "(simulated): ready" in lab.first.output


def test_a_second_run_changes_nothing_within_one_login_and_so_does_check_mode(lab: StorageLab) -> None:
    before = len(lab.requests())
    assert lab.ok().changed == 0
    paths = [request["path"] for request in lab.requests()[before:]]
    assert [path for path in paths if path in ("/login", "/logout")] == ["/login", "/logout"]
    assert not (lab.state / "secrets/objectscale.json.session").exists()
    assert lab.ok("--check").changed == 0


def test_a_run_that_fails_logs_out_all_the_same(lab: StorageLab) -> None:
    before = len(lab.requests())
    run = lab.play(objectscale_buckets=[{"name": "a..b"}])
    assert run.returncode != 0
    assert "is no bucket name" in run.output
    assert lab.requests()[-1]["path"] == "/logout"
    assert len(lab.requests()) > before
    assert not (lab.state / "secrets/objectscale.json.session").exists()


def test_secrets_are_told_to_nobody(lab: StorageLab, with_tenants: Run) -> None:
    """Output, log and diffs at -vvv, fact cache, programs' logs, and what any process was started with."""
    run, first = with_tenants, lab.first
    assert first is not None
    files = [lab.folder / "ansible.log", *(lab.folder / "facts").rglob("*"), *(lab.state / "log").rglob("*")]
    texts = {str(file): file.read_text(errors="replace") for file in files if file.is_file()}
    texts |= {"output": run.output, "first output": first.output, "arguments": "\n".join(run.arguments)}
    texts["first arguments"] = "\n".join(first.arguments)
    secrets = {lab.key, lab.password, *run.tokens, *first.tokens}
    secrets |= {
        (lab.state / f"secrets/tenants/{tenant['name']}.key").read_text().strip() for tenant in TENANTS
    }
    assert len(secrets) >= 6, "no token was seen: the watch is broken"
    assert any("ansible-playbook" in line for line in run.arguments)
    leaks = [name for name, text in texts.items() if any(secret in text for secret in secrets)]
    assert leaks == []
    for file in (lab.state / "secrets").rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, file


@pytest.mark.usefixtures("with_tenants")
def test_no_tenant_can_reach_what_is_anothers(lab: StorageLab) -> None:
    clients = {"blue": lab.client("tenants/blue.json"), "green": lab.client("tenants/green.json")}
    buckets = {"blue": "kv-blue", "green": "kv-of-green"}
    for tenant, client in clients.items():
        client.put_object(Bucket=buckets[tenant], Key="prompt", Body=tenant.encode())
    for tenant, client in {**clients, "the lab's own user": lab.client()}.items():
        for other in buckets.keys() - {tenant}:
            there = {"Bucket": buckets[other]}
            one = {**there, "Key": "prompt"}
            assert refused(client.get_object, **one) == "AccessDenied"
            assert refused(client.list_objects_v2, **there) == "AccessDenied"
            assert refused(client.put_object, **one, Body=b"") == "AccessDenied"
            assert refused(client.delete_object, **one) == "AccessDenied"
            assert refused(client.delete_bucket, **there) == "AccessDenied"
    for tenant, client in clients.items():
        assert client.get_object(Bucket=buckets[tenant], Key="prompt")["Body"].read() == tenant.encode()
        assert client.list_objects_v2(Bucket=buckets[tenant])["KeyCount"] == 1


@pytest.mark.usefixtures("with_tenants")
def test_tenants_are_configured_once_and_their_encryption_is_as_asked(lab: StorageLab) -> None:
    assert lab.ok(objectscale_tenants=TENANTS).changed == 0
    plain = [{**TENANTS[0], "encryption": False}]
    run = lab.play(objectscale_tenants=plain)
    assert run.returncode != 0
    assert "encryption is True, not False" in run.output
    assert "fixed at creation" in run.output


def test_cache_objects_expire_where_that_is_asked(lab: StorageLab) -> None:
    wanted = [{"name": "kv-expiring", "expire_days": 7, "expire_prefixes": ["Qwen_"]}]
    assert lab.ok(objectscale_buckets=wanted).changed == 2
    assert lab.ok(objectscale_buckets=wanted).changed == 0
    rule = lab.client().get_bucket_lifecycle_configuration(Bucket="kv-expiring")["Rules"][0]
    assert (rule["Filter"]["Prefix"], rule["Expiration"]["Days"]) == ("Qwen_", 7)


def test_a_rotation_leaves_no_moment_without_a_good_key_and_ends_with_one(lab: StorageLab) -> None:
    old, client = lab.key, lab.client()
    lab.ok(plays=step("rotate"))
    new = lab.key
    assert new != old
    assert json.loads((lab.state / "secrets/objectscale.json").read_text())["secret_key"] == new
    assert client.list_buckets()["Buckets"]
    assert lab.client().list_buckets()["Buckets"]
    # Cut short here, the next run adds no third key, and an ordinary one leaves both alone.
    lab.ok(plays=step("rotate"))
    assert lab.key == new
    assert lab.ok().changed == 0
    assert client.list_buckets()["Buckets"]
    lab.ok(plays=step("expire"))
    assert refused(client.list_buckets) == "SignatureDoesNotMatch"
    assert lab.client().list_buckets()["Buckets"]
    left = sorted(file.name for file in (lab.state / "secrets").glob("objectscale_secret_key*"))
    assert left == ["objectscale_secret_key"]


def test_a_rotation_that_made_a_key_and_could_not_add_it_goes_on_with_that_key(lab: StorageLab) -> None:
    waiting = lab.state / "secrets/objectscale_secret_key.next"
    waiting.touch(mode=0o600)
    waiting.write_text("a" * 40)
    lab.ok(plays=step("rotate"))
    assert lab.key == "a" * 40
    assert not waiting.exists()
    lab.ok(plays=step("expire"))
    assert lab.client().list_buckets()["Buckets"]


def test_one_namespace_user_key_and_twenty_buckets_take_few_requests(lab: StorageLab) -> None:
    wanted = {
        "objectscale_namespace": "counted",
        "objectscale_user": "counted-user",
        "objectscale_secret_key": "k" * 40,
        "objectscale_secret_key_file": "",
        "objectscale_secrets_file": str(lab.state / "secrets/counted.json"),
        "objectscale_buckets": [{"name": f"kv-{n}", "quota_gb": 10, "quota_notify_gb": 8} for n in range(20)],
    }
    counts = []
    for _ in range(2):
        before = len(lab.requests())
        run = lab.ok(**wanted)
        counts.append(len(lab.requests()) - before)
    assert counts[0] <= 65
    assert counts[1] <= 35
    assert run.changed == 0


def test_tenants_need_the_management_api(lab: StorageLab) -> None:
    run = lab.play("--check", objectscale_management=False, objectscale_tenants=TENANTS)
    assert run.returncode != 0
    assert "S3 alone cannot make users" in run.output


def test_the_management_api_needs_an_address(lab: StorageLab) -> None:
    run = lab.play("--check", "--tags", "objectscale", objectscale_management_host="")
    assert run.returncode != 0
    assert "objectscale_management_host" in run.output
    assert "objectscale_management to false" in run.output


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("objectscale_tenants", [{"name": "blue", "bucket": "kv-s3-rdma"}], "not the lab itself has"),
        ("objectscale_tenants", [{"name": "a", "user": "u"}, {"name": "b", "user": "u"}], "no other tenant"),
        ("objectscale_tenants", [{"name": "../a", "user": "u"}], "a name of letters"),
        ("objectscale_buckets", [{"name": "kv"}, {"name": "kv"}], "names a bucket twice"),
        ("objectscale_buckets", [{"name": "kv", "quota_gb": 0}], "quota_gb 0"),
    ],
)
def test_what_would_not_hold_is_refused_before_anything_is_made(
    lab: StorageLab, variable: str, value: Any, words: str
) -> None:
    before = len(lab.requests())
    run = lab.play("--tags", "objectscale", **{variable: value})
    assert run.returncode != 0
    assert words in " ".join(run.output.split())
    assert len(lab.requests()) == before


def test_check_mode_on_a_lab_that_is_down_or_new_does_not_fail(lab: StorageLab, tmp_path: Path) -> None:
    lab.down()
    lab.ok("--check")
    new = StorageLab(tmp_path)
    new.ok("--check")
    assert not (new.state / "secrets").exists()


def test_a_lab_of_before_the_management_api_comes_up_with_its_objects(tmp_path: Path) -> None:
    lab = StorageLab(tmp_path)
    try:
        lab.ok(objectscale_management=False)
        assert (lab.state / "secrets/objectscale-users.json").exists()
        key = lab.key
        lab.client().put_object(Bucket="kv-s3-http", Key="kv", Body=b"older")
        lab.ok()
        assert lab.key == key
        assert lab.client().get_object(Bucket="kv-s3-http", Key="kv")["Body"].read() == b"older"
        assert not (lab.state / "secrets/objectscale-users.json").exists()
        assert lab.ok().changed == 0
    finally:
        lab.down()
