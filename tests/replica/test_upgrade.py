"""Changing what serves, on the replica's first two nodes over ssh: canary, stop at the first failure, and the way back.

The stacks are tiny (tiny_stacks.py), and everything of them lies in folders of its own that the end removes; only the
playbooks, the roles and the command are the real ones.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_stacks
import yaml

pytestmark = [pytest.mark.replica, pytest.mark.slow]

PROJECT = Path(__file__).resolve().parents[2]
INVENTORY = PROJECT / "inventories/replica"
HOME, UNIT, PORT = "/opt/kvlab-tiny", "kvlab-vllm@baseline.service", 18431
SETTINGS: dict[str, Any] = {
    "kvlab_serve": True,
    "kvlab_endpoint": "http://127.0.0.1:9",
    "kvlab_active_profile": "baseline",
    "kvlab_state_dir": f"{HOME}/state",
    "kvlab_model_dir": f"{HOME}/model",
    "kvlab_ports": {"s3": 9, "management": 9, "vllm": PORT, "lmcache": 18432, "lmcache_http": 18433},
    "inference_stack_lib_dir": "",
    "inference_stack_venv": f"{HOME}/venv",
    "inference_stack_venvs_dir": f"{HOME}/venvs",
    "kv_profiles_dir": f"{HOME}/profiles",
    "kv_profiles_sets_dir": f"{HOME}/profile-sets",
    "kv_profiles_list": [{"name": "baseline", "mode": "none"}],
    "serving_lab_file": f"{HOME}/lab.json",
    "serving_vllm_timeout": 60,
    "objectscale_secret_key": "none",
}


@dataclass(frozen=True)
class Done:
    """What a play or a command did; `changed` counts tasks by host, for the hosts that it came to."""

    rc: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        tail = self.output.rpartition("PLAY RECAP")[2]
        return {host: int(count) for host, count in re.findall(r"(\S+) : ok=\d+ changed=(\d+)", tail)}


@dataclass
class Fleet:
    """Two nodes, an inventory of them that the tests write, and what is asked of them."""

    replica: Any
    inventory: Path
    stacks: Path
    python: str

    @property
    def nodes(self) -> tuple[str, str]:
        first, second = self.replica.nodes[:2]
        return first, second

    def wants(self, stack: str, *, works: bool = True) -> None:
        """Let the inventory ask for another stack."""
        if not (self.stacks / f"{stack}.yml").exists():
            wheels = tiny_stacks.make(self.stacks, stack, self.python, works=works)
            for node in self.nodes:
                for wheel in wheels.iterdir():
                    self.put(node, wheel, f"{HOME}/wheels/{stack}")
        own = {
            "kvlab_stack": stack,
            "inference_stack_dir": str(self.stacks),
            "kv_profiles_stack_dir": str(self.stacks),
            "inference_stack_find_links": f"{HOME}/wheels/{stack}",
        }
        (self.inventory / "group_vars/gpu_hosts/zz-tiny.yml").write_text(yaml.safe_dump(SETTINGS | own))

    def put(self, node: str, file: Path, folder: str) -> None:
        """Bring a file to a node."""
        content = base64.b64encode(file.read_bytes()).decode()
        self.out(node, f"mkdir -p {folder}; echo {content} | base64 -d > {folder}/{file.name}")

    def play(self, *words: str) -> Done:
        """Upgrade, without the judgement of bare hosts, which is not about stacks."""
        limit = ":".join(self.nodes)
        return self._run(
            "ansible-playbook", "playbooks/upgrade.yml", "--skip-tags", "preflight", "--limit", limit, *words
        )

    def back(self, node: str, *words: str) -> Done:
        """kvlab rollback."""
        return self._run("kvlab", "rollback", node, *words)

    def _run(self, program: str, *words: str) -> Done:
        command = [str(Path(sys.executable).with_name(program)), *words, "-i", str(self.inventory)]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        return Done(done.returncode, " ".join((done.stdout + done.stderr).split()))

    def out(self, node: str, command: str) -> str:
        """What a command says on a node; it must succeed."""
        done = self.replica.host(node).run(command)
        assert done.rc == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return str(done.stdout).strip()

    def served(self, node: str) -> str:
        """The stack of the server that answers on the node."""
        ask = f"import urllib.request as u; print(u.urlopen('http://{self.address(node)}:{PORT}/version').read().decode())"
        said = json.loads(self.out(node, f'python3 -c "{ask}"'))
        assert said["prefix"].startswith(f"{HOME}/venvs/{said['version']}-"), (
            "it runs by its own folder, not by the link"
        )
        return str(said["version"])

    def address(self, node: str) -> str:
        return next(one["address"] for one in self.replica.described["nodes"] if one["name"] == node)

    def process(self, node: str) -> str:
        """The serving process and when it began: another one has another."""
        return self.out(node, f"systemctl show --property=MainPID,ExecMainStartTimestampMonotonic {UNIT}")


@pytest.fixture(scope="module")
def fleet(replica: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The replica's inventory with settings of these tests beside its own."""
    if len(replica.nodes) < 2:
        pytest.fail("an upgrade needs two GPU hosts: make the replica with -e replica_nodes=2", pytrace=False)
    root = tmp_path_factory.mktemp("upgrade")
    inventory = root / "inventories/tiny"
    inventory.mkdir(parents=True)
    (inventory / "hosts.py").symlink_to(INVENTORY / "hosts.py")
    for group in ("all", "gpu_hosts"):
        (inventory / "group_vars" / group).mkdir(parents=True)
        for file in (INVENTORY / "group_vars" / group).iterdir():
            (inventory / "group_vars" / group / file.name).symlink_to(file)
    version = replica.host(replica.nodes[0]).run(
        "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'"
    )
    made = Fleet(replica, inventory, root / "stacks", str(version.stdout).strip())
    # The replica's own profiles have a unit of that name.
    for node in made.nodes:
        made.out(node, f"mkdir {HOME}; cp /etc/systemd/system/{UNIT} {HOME} || true")
    yield made
    for node in made.nodes:
        made.out(node, f"systemctl disable --now {UNIT}; rm -f /etc/systemd/system/{UNIT}")
        made.out(
            node, f"mv {HOME}/{UNIT} /etc/systemd/system/ || true; rm -r {HOME}; systemctl daemon-reload"
        )


def test_hosts_go_forward_one_after_the_other_and_one_goes_back(fleet: Fleet) -> None:
    canary, other = fleet.nodes
    fleet.wants("tiny-a")
    first = fleet.play()
    assert first.rc == 0, first.output[-3000:]
    assert [fleet.served(node) for node in fleet.nodes] == ["tiny-a", "tiny-a"]
    again = fleet.play()
    assert again.changed == {canary: 0, other: 0}, again.output[-6000:]
    refused = fleet.back(canary)
    assert refused.rc == 2
    assert "There is nothing to go back to" in refused.output
    assert fleet.served(canary) == "tiny-a"

    fleet.wants("tiny-b")
    dry = fleet.play("--check")
    assert dry.rc == 0, dry.output[-3000:]
    assert "tiny-b" not in fleet.out(canary, f"ls {HOME}/venvs")
    assert fleet.served(canary) == "tiny-a"
    second = fleet.play()
    assert second.rc == 0, second.output[-3000:]
    assert "the same answer (simulated)" in second.output
    assert [fleet.served(node) for node in fleet.nodes] == ["tiny-b", "tiny-b"]
    back = fleet.back(canary)
    assert back.rc == 0, back.output[-3000:]
    assert [fleet.served(node) for node in fleet.nodes] == ["tiny-a", "tiny-b"]
    described = json.loads(fleet.out(canary, f"cat {HOME}/lab.json"))
    assert described["stack"] == "tiny-a", "and not the one that the inventory names"


def test_a_canary_that_does_not_serve_leaves_the_other_host_as_it_was_and_goes_back(fleet: Fleet) -> None:
    canary, other = fleet.nodes
    fleet.wants("tiny-good")
    assert fleet.play().rc == 0
    before = fleet.process(other)
    fleet.wants("tiny-broken", works=False)
    failed = fleet.play()
    assert failed.rc != 0
    assert other not in failed.changed, "the play never came to it"
    assert fleet.process(other) == before
    assert "tiny-broken" not in fleet.out(other, f"ls {HOME}/venvs")
    assert "tiny-broken" in fleet.out(canary, f"readlink {HOME}/venv")
    back = fleet.back(canary)
    assert back.rc == 0, back.output[-3000:]
    assert fleet.served(canary) == "tiny-good"


def test_a_set_of_profiles_that_cannot_be_rendered_changes_nothing_that_serves(fleet: Fleet) -> None:
    canary, _ = fleet.nodes
    fleet.wants("tiny-good")
    assert fleet.play().rc == 0
    before, links = fleet.process(canary), fleet.out(canary, f"readlink {HOME}/venv {HOME}/profiles")
    fleet.wants("tiny-next")
    failed = fleet.play("-e", "kvlab_max_model_len=-1")
    assert failed.rc != 0
    assert "tiny-next" in fleet.out(canary, f"readlink {HOME}/venv.next"), "the environment was built"
    assert fleet.out(canary, f"readlink {HOME}/venv {HOME}/profiles") == links
    assert fleet.process(canary) == before
