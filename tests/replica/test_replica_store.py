"""The emulated array as a systemd service of the store node."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.replica

UNIT = "/etc/systemd/system/kvlab-objectscale.service"
STORAGE = {"playbook": "playbooks/storage.yml"}


def test_its_unit_is_sound_and_it_runs(replica: Any) -> None:
    host = replica.host("store")
    assert host.run(f"systemd-analyze verify {UNIT}").stderr == ""
    assert host.service("kvlab-objectscale").is_running
    assert host.service("kvlab-objectscale").is_enabled


def test_its_secrets_are_in_no_argument_and_no_environment(replica: Any) -> None:
    host = replica.host("store")
    entry = host.file("/etc/kvlab/secrets/objectscale-entry.json")
    assert entry.mode == 0o600
    password = host.check_output(
        'python3 -c \'import json; print(json.load(open("%s"))["password"])\'', entry.path
    )
    pid = host.check_output("systemctl show --value --property=MainPID kvlab-objectscale")
    seen = host.check_output("cat /proc/%s/cmdline /proc/%s/environ | tr '\\0' '\\n'", pid, pid)
    assert "kvlab" in seen
    assert password not in seen


def test_a_second_run_changes_nothing(replica: Any) -> None:
    play = replica.play("--tags", "sim_objectscale", **STORAGE)
    assert play.rc == 0, play.stdout
    assert play.stats["store"]["changed"] == 0, play.stdout


def test_a_gpu_host_reaches_it_over_the_rails(replica: Any) -> None:
    rail = next(node["rails"][0] for node in replica.described["nodes"] if node["name"] == "store")
    ask = (
        "import http.client as h; c = h.HTTPConnection('%s', 9020, timeout=5); "
        "c.request('GET', '/'); print(c.getresponse().status)"
    )
    for name in replica.nodes:
        assert replica.host(name).check_output(f'python3 -c "{ask % rail}"') in ("200", "403")
