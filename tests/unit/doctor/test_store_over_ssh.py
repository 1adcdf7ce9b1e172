"""The store of an inventory's lab is asked on a GPU host, by the kvlab there: its key never comes to the controller."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlab.doctor import collect, hosts
from kvlab.errors import KvlabError

SSH = """#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/ssh.args"
for last; do :; done
exec sh -c "$last"
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hosts.Host:
    """A host with a lab whose store is at a closed port, behind an ssh that runs its command here."""
    secrets = tmp_path / "objectscale.json"
    secrets.write_text(json.dumps({"access_key": "AKIATEST", "secret_key": "not-told"}))
    profile = {"bucket": "kv-lab", "endpoints": [], "chunk_bytes": 1048576}
    data = {
        "state_dir": str(tmp_path),
        "simulated": True,
        "endpoint": "http://127.0.0.1:9",
        "secrets_file": str(secrets),
        "test_bucket": "kv-test",
        "active_profile": "s3-rdma",
        "profiles": {"s3-rdma": profile},
    }
    (tmp_path / "lab.json").write_text(json.dumps(data))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(hosts, "TOOLS_PYTHON", sys.executable)
    return hosts.Host("node1", {"ansible_host": "192.0.2.1", "serving_lab_file": str(tmp_path / "lab.json")})


def test_the_hosts_own_kvlab_answers_and_its_key_stays_there(host: hosts.Host, tmp_path: Path) -> None:
    facts = hosts.store(host)
    assert facts["endpoint"] == "http://127.0.0.1:9"
    assert "127.0.0.1:9" in facts["error"]
    assert "not-told" not in json.dumps(facts)
    asked = (tmp_path / "bin/ssh.args").read_text().splitlines()
    assert asked[-2] == "192.0.2.1"
    assert "kvlab.doctor.store" in asked[-1]


def test_a_host_without_a_lab_says_so(host: hosts.Host, tmp_path: Path) -> None:
    (tmp_path / "lab.json").unlink()
    with pytest.raises(KvlabError, match=r"node1.*there is no lab here"):
        hosts.store(host)


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({"kvlab_active_profile": "s3-rdma", "serving_profiles_dir": "/x"}, True),
        ({"kvlab_active_profile": "file", "serving_profiles_dir": "/x"}, False),
        ({"kvlab_active_profile": "baseline", "serving_profiles_dir": "/x"}, False),
        (
            {
                "kvlab_active_profile": "s3-rdma",
                "serving_profiles_dir": "/x",
                "kvlab_serving_mode": "external",
            },
            False,
        ),
    ],
)
def test_a_lab_over_ssh_has_facts_about_its_store_where_kvlab_serves_from_one(
    variables: dict[str, Any], asked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    member = hosts.Host("node1", variables)
    monkeypatch.setattr(hosts, "of_inventory", lambda _inventory: [member])
    monkeypatch.setattr(hosts, "collect", lambda _host, _job: ({"clock": {"offset_s": 0.0}}, ""))
    monkeypatch.setattr(hosts, "store", lambda host: {"simulated": False, "asked_on": host.name})
    found = collect.lab(tmp_path, lambda _line: None)
    assert ("s3" in found.applies.get("lab", ())) is asked
    assert (found.hosts.get("lab", {}).get("s3", {}).get("asked_on") == "node1") is asked


def test_a_store_that_could_not_be_asked_is_an_error_of_its_topic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_host: hosts.Host) -> dict[str, Any]:
        raise KvlabError("kvlab on node1 did not answer within 60 s")

    member = hosts.Host("node1", {"kvlab_active_profile": "s3-http", "serving_profiles_dir": "/x"})
    monkeypatch.setattr(hosts, "of_inventory", lambda _inventory: [member])
    monkeypatch.setattr(hosts, "collect", lambda _host, _job: ({}, ""))
    monkeypatch.setattr(hosts, "store", refuse)
    found = collect.lab(tmp_path, lambda _line: None)
    assert "did not answer within 60 s" in found.hosts["lab"]["s3"]["error"]
