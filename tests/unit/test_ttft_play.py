"""playbooks/ttft.yml: measures where the lab serves, brings the result here, and leaves nothing there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KVLAB = """#!/bin/sh
echo "$*" >"{log}"
echo "$KVLAB_LAB_FILE $KVLAB_COMMIT" >>"{log}"
cat "$3" >"$5"
echo "12 passes"
echo "why it ended so" >&2
exit {status}
"""
Play = Callable[[int], subprocess.CompletedProcess[str]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs the playbook on a host whose kvlab ends with a status."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "plan.yml").write_text("name: a plan\n")
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": str(tmp_path / "tmp"),
        "ansible_async_dir": str(tmp_path / "tmp"),
        "kvlab_python": str(tmp_path / "bin/python"),
        "kvlab_service_manager": "systemd",
    }
    groups = {"gpu_hosts": {"hosts": {"node1": host, "node2": host}}}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"children": groups}}))
    (tmp_path / "ansible.cfg").touch()

    def run(status: int) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "bin/kvlab"
        program.write_text(KVLAB.format(log=tmp_path / "log", status=status))
        program.chmod(0o755)
        given = {
            "kvlab_ttft_plan": str(tmp_path / "plan.yml"),
            "kvlab_ttft_output": str(tmp_path / "now.json"),
            "kvlab_ttft_commit": "c0ffee",
        }
        command = [Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "hosts.json"]
        command += ["-e", json.dumps(given), ROOT / "playbooks/ttft.yml"]
        settings = {
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "TMPDIR": str(tmp_path / "tmp"),
        }
        return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("status", [0, 1])
def test_the_result_comes_here_and_its_host_is_left_as_it_was(
    status: int, play: Play, tmp_path: Path
) -> None:
    done = play(status)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "now.json").read_text() == "name: a plan\n"
    assert "12 passes" in done.stdout
    called, environment = (tmp_path / "log").read_text().splitlines()
    assert called.startswith("ttft run ")
    assert environment == "/etc/kvlab/lab.json c0ffee"
    assert not list((tmp_path / "tmp").glob("kvlab-ttft.*"))
    assert "node2" not in done.stdout, "each host is an environment of its own: one is measured"


def test_a_measurement_that_could_not_be_made_is_told_and_leaves_no_result(
    play: Play, tmp_path: Path
) -> None:
    done = play(2)
    assert done.returncode == 2
    assert "why it ended so" in done.stdout + done.stderr
    assert not (tmp_path / "now.json").exists()
    assert not list((tmp_path / "tmp").glob("kvlab-ttft.*"))
