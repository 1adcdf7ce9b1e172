"""The host is what the inventory says: expected values come from the inventory itself, not from copies in a test."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from harness import Bench

from kvlab.objectscale import s3

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def wanted(session_bench: Bench) -> dict[str, Any]:
    """What the inventory gives to the GPU host."""
    names = (
        "kvlab_simulated",
        "kvlab_endpoint",
        "kvlab_ports",
        "kv_profiles_list",
        "kv_profiles_rdma_addresses",
    )
    more = ("serving_active_profile", "kvlab_service_manager", "kv_profiles_dir")
    return session_bench.host.variables(*names, *more)


@pytest.fixture(scope="session")
def wanted_buckets(session_bench: Bench) -> list[str]:
    """What the inventory gives to the object store's host, else to the GPU host."""
    where = session_bench.store_host or session_bench.host
    given = where.variables("objectscale_buckets")["objectscale_buckets"] or []
    return [bucket["name"] for bucket in given]


def test_the_lab_says_what_the_inventory_says(wanted: dict[str, Any], bench: Bench) -> None:
    data = bench.lab.data
    said = data["simulated"], data["endpoint"], data["ports"], data["active_profile"]
    ports, profile = wanted["kvlab_ports"], wanted["serving_active_profile"]
    assert said == (bool(wanted["kvlab_simulated"]), wanted["kvlab_endpoint"], ports, profile)


def test_every_profile_of_the_inventory_is_rendered_and_no_other(
    wanted: dict[str, Any], bench: Bench
) -> None:
    assert sorted(bench.lab.profiles) == sorted(p["name"] for p in wanted["kv_profiles_list"])
    for profile in wanted["kv_profiles_list"]:
        rendered = bench.lab.profiles[profile["name"]]
        assert (rendered["bucket"], rendered["mode"]) == (profile.get("bucket"), profile["mode"])
        assert json.loads(bench.host.read(f"{rendered['dir']}/profile.json"))["bucket"] == profile.get(
            "bucket"
        )


def test_s3_profiles_go_to_the_endpoint_and_bucket_of_the_inventory(
    wanted: dict[str, Any], bench: Bench
) -> None:
    buckets = {p["name"]: p["bucket"] for p in wanted["kv_profiles_list"] if p.get("bucket")}
    assert buckets
    for name, bucket in buckets.items():
        params = bench.profile_params(name)
        assert (params["bucket"], params["endpoint_override"]) == (bucket, wanted["kvlab_endpoint"])


def test_cufile_json_names_the_rdma_addresses_of_the_inventory(wanted: dict[str, Any], bench: Bench) -> None:
    cufile = json.loads(bench.host.read(str(bench.lab.data["cufile_json"])))
    assert cufile["properties"]["rdma_dev_addr_list"] == wanted["kv_profiles_rdma_addresses"]


def test_the_buckets_of_the_inventory_are_there(wanted_buckets: list[str], bench: Bench) -> None:
    assert wanted_buckets
    missing = [name for name in wanted_buckets if not s3.bucket_exists(bench.s3, name)]
    assert missing == []


def test_files_with_a_secret_are_read_by_their_owner_alone(bench: Bench) -> None:
    files = [str(bench.lab.data["secrets_file"])]
    files += [f"{p['dir']}/secret.env" for p in bench.lab.profiles.values() if p["bucket"]]
    modes = bench.host.output(f"stat -c '%a %n' {shlex.join(files)}").splitlines()
    assert [line.split()[0] for line in modes] == ["600"] * len(files), modes


def test_no_secret_stands_in_the_arguments_of_a_process(bench: Bench) -> None:
    secret = json.loads(bench.host.read(str(bench.lab.data["secrets_file"])))["secret_key"]
    arguments = bench.host.output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
    assert arguments
    found = secret in arguments  # a plain assert would print the secret
    assert not found
