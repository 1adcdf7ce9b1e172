"""A node is booted once, again when its links change, anew when its base changes, and leaves nothing behind.

The launcher is a real process that a stand-in for unshare starts; what it would boot is not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LAUNCHER = """\
import json, os, signal, sys, time
from pathlib import Path
config = json.loads(Path(sys.argv[1]).read_text())
if config["name"] == "broken":
    sys.exit("node.py: there is no systemd-nspawn; install systemd-container")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
Path(config["pid_file"]).write_text(str(os.getpid()))
time.sleep(120)
"""
UNSHARE = '#!/bin/sh\n[ "$1 $2 $3" = "--mount --propagation private" ] || exit 9\nshift 3\nexec "$@"\n'


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Arguments for a node; its launcher is ended afterwards."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "python3").symlink_to(sys.executable)
    (commands / "sh").symlink_to("/bin/sh")
    for name, text in {"unshare": UNSHARE, "ip": f'#!/bin/sh\necho "$*" >> {tmp_path}/ip.log\n'}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(commands))
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    folder = tmp_path / "nodes/node1"
    yield {
        "name": "node1",
        "folder": str(folder),
        "launcher": str(tmp_path / "launcher.py"),
        "base": "/srv/base-1",
        "files": [{"path": "/etc/secret", "content": "x\n", "mode": "0600"}],
        "links": [{"inside": "mgmt0", "outside": "kv1", "bridge": "kvm", "addresses": [], "mtu": 1500}],
        "binds": {"/wheels": "/srv/wheels"},
    }
    pid_file = folder / "launcher.pid"
    if pid_file.exists() and int(pid_file.read_text()) != os.getpid() and alive(int(pid_file.read_text())):
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_check_mode_makes_nothing(run: Any, node: dict[str, Any]) -> None:
    told = run("replica_node", check=True, **node)
    assert (told["changed"], told["pid"]) == (True, 0)
    assert not Path(node["folder"]).exists()


def test_a_node_is_booted_once_with_its_files_and_mounts(run: Any, node: dict[str, Any]) -> None:
    first = run("replica_node", **node)
    assert first["changed"] is True, first
    assert alive(first["pid"])
    folder = Path(node["folder"])
    secret = folder / "upper/etc/secret"
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("x\n", 0o600)
    config = json.loads((folder / "node.json").read_text())
    assert (config["base"], config["binds"]) == ("/srv/base-1", {"/srv/wheels": "/wheels"})
    assert {config[name] for name in ("upper", "work", "root")} == {
        str(folder / n) for n in ("upper", "work", "root")
    }
    again = run("replica_node", **node)
    assert (again["changed"], again["pid"]) == (False, first["pid"])


def test_other_links_boot_it_again_and_keep_what_is_on_it(run: Any, node: dict[str, Any]) -> None:
    first = run("replica_node", **node)
    made = Path(node["folder"]) / "upper/etc/made-on-the-node"
    made.write_text("kept")
    links = [{**node["links"][0], "mtu": 9000}]
    second = run("replica_node", **node | {"links": links})
    assert second["changed"] is True
    assert second["pid"] not in (0, first["pid"])
    assert not alive(first["pid"])
    assert made.read_text() == "kept"


def test_another_base_makes_it_anew(run: Any, node: dict[str, Any]) -> None:
    first = run("replica_node", **node)
    made = Path(node["folder"]) / "upper/etc/made-on-the-node"
    made.write_text("of the old base")
    second = run("replica_node", **node | {"base": "/srv/base-2"})
    assert second["changed"] is True
    assert second["diff"]["after"]["base"] == "/srv/base-2"
    assert (made.exists(), alive(first["pid"])) == (False, False)
    assert (Path(node["folder"]) / "upper/etc/secret").exists()


def test_a_node_that_was_killed_is_booted_again(run: Any, node: dict[str, Any]) -> None:
    first = run("replica_node", **node)
    os.kill(first["pid"], signal.SIGKILL)
    while alive(first["pid"]):
        time.sleep(0.01)
    second = run("replica_node", **node)
    assert second["changed"] is True
    assert alive(second["pid"])


def test_removed_it_leaves_no_folder_no_process_and_no_link(
    run: Any, node: dict[str, Any], tmp_path: Path
) -> None:
    pid = run("replica_node", **node)["pid"]
    absent = {"name": node["name"], "folder": node["folder"], "state": "absent"}
    assert run("replica_node", check=True, **absent)["changed"] is True
    assert alive(pid)
    assert run("replica_node", **absent)["pid"] == 0
    assert not Path(node["folder"]).exists()
    assert not alive(pid)
    assert (tmp_path / "ip.log").read_text() == "link del kv1\n"
    assert run("replica_node", **absent)["changed"] is False


def test_a_number_that_another_process_got_since_is_not_its_launcher(run: Any, node: dict[str, Any]) -> None:
    folder = Path(node["folder"])
    folder.mkdir(parents=True)
    (folder / "launcher.pid").write_text(str(os.getpid()))
    result = run("replica_node", **{"name": "node1", "folder": str(folder), "state": "absent"})
    # This process would be gone otherwise.
    assert (result["changed"], folder.exists()) == (True, False)


def test_a_launcher_that_does_not_start_is_told_with_its_own_words(run: Any, node: dict[str, Any]) -> None:
    result = run("replica_node", **node | {"name": "broken"})
    assert result["failed"]
    assert result["msg"] == (
        "the launcher of broken did not start: node.py: there is no systemd-nspawn; install systemd-container"
    )


def test_one_to_be_started_needs_launcher_and_base(run: Any, node: dict[str, Any]) -> None:
    result = run("replica_node", name="node1", folder=node["folder"])
    assert result["failed"]
    assert "launcher, base" in result["msg"]
