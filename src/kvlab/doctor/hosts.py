"""The hosts of an inventory, as Ansible itself resolves them, and host probes run on them over ssh."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import host as host_probes
from kvlab.probes import shipping
from kvlab.serving.lab import HOST as HOST_LAB

ASKED = (
    "ansible_connection", "ansible_host", "ansible_user", "ansible_port", "ansible_ssh_private_key_file",
    "ansible_ssh_common_args", "ansible_become", "group_names", "kvlab_provision", "kvlab_simulated",
    "kvlab_active_profile", "kvlab_serving_mode", "kvlab_state_dir", "serving_profiles_dir", "serving_venv",
    "serving_vllm_url", "serving_metrics_url", "serving_lmcache_url",
    "serving_state_dir", "serving_lab_file", "serving_manager", "serving_address", "serving_ports",
    "inference_stack_name", "inference_stack_lib_dir",
)  # fmt: skip
"""Variables that the doctor reads; none is a secret."""

TOOLS_PYTHON = "/opt/kvlab/tools/bin/python"
"""Of the environment that the role kvlab_tools makes."""

CONNECT_S = 5
PROBES_S = 60.0
_ANSWER = re.compile(r"^(\S+) \| (SUCCESS|FAILED!|UNREACHABLE!)[^{]*(?=\{)", re.MULTILINE)


@dataclass(frozen=True)
class Host:
    """A host of the inventory; `variables` are those of ASKED that it has."""

    name: str
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return self.variables.get("ansible_connection") == "local"

    def get(self, name: str, default: Any = None) -> Any:
        """A variable, or the default."""
        return self.variables.get(name, default)

    def command(self, python: str = "python3", arguments: Sequence[str] = ("-c", shipping.BOOT)) -> list[str]:
        """What runs a Python there, by default one that takes its program from stdin; become is sudo without asking."""
        if self.local:
            return [sys.executable, *arguments]
        words = [python, *arguments]
        if self.get("ansible_become") in (True, "true", "yes"):
            words = ["sudo", "-n", *words]
        ssh = [
            "ssh",
            "-o",
            "BatchMode=yes",
            "-o",
            f"ConnectTimeout={CONNECT_S}",
            "-o",
            "ServerAliveInterval=5",
        ]
        ssh += shlex.split(str(self.get("ansible_ssh_common_args") or ""))
        for option, name in (
            ("-p", "ansible_port"),
            ("-i", "ansible_ssh_private_key_file"),
            ("-l", "ansible_user"),
        ):
            if self.get(name):
                ssh += [option, str(self.get(name))]
        return [*ssh, str(self.get("ansible_host") or self.name), shlex.join(words)]


def of_inventory(inventory: Path, group: str = "gpu_hosts") -> list[Host]:
    """The hosts of a group with their variables rendered.

    Raises:
        KvlabError: Ansible cannot read the inventory, or the group is empty.
    """
    message = "{{ {" + ", ".join(f"'{name}': {name} | default(none)" for name in ASKED) + "} | to_json }}"
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible")), group, "-i", str(inventory), "-m", "ansible.builtin.debug",
         "-a", json.dumps({"msg": message})],
        capture_output=True, text=True, check=False, env=_environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    found = []
    for match in _ANSWER.finditer(done.stdout):
        answer, _ = json.JSONDecoder().raw_decode(done.stdout, match.end())
        if match[2] != "SUCCESS":
            raise KvlabError(
                f"the variables of {match[1]} in {inventory} cannot be read: {answer.get('msg')}"
            )
        values = answer["msg"] if isinstance(answer["msg"], dict) else json.loads(answer["msg"])
        found.append(Host(match[1], {name: value for name, value in values.items() if value is not None}))
    if not found:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise KvlabError(
            f"{inventory} has no host in group {group}: {lines[-1] if lines else 'it is empty'}."
        )
    return found


def collect(host: Host, job: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Facts by topic that the host's own probes give, and why there are none (then the facts are empty)."""
    if host.local:
        facts: dict[str, Any] = host_probes.run(job)["facts"]
        return facts | {"clock": {"offset_s": 0.0, "uncertainty_s": 0.0, "synchronised": None}}, ""
    try:
        done = subprocess.run(
            host.command(), input=shipping.package("kvlab.probes.host", dict(job)), capture_output=True,
            text=True, check=False, timeout=PROBES_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}, f"it did not answer within {PROBES_S:.0f} s"
    except OSError as error:
        return {}, f"ssh cannot be started: {error}"
    ended = time.time()
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {}, lines[-1] if lines else f"the probes ended with status {done.returncode}"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return {}, "its answer is cut"
    # What passes between the host's clock reading and ours is the way back and Python's end.
    clock = {"offset_s": round(answer["now"] - ended, 3), "uncertainty_s": 1.0, "synchronised": None}
    return {**answer["facts"], "clock": clock}, ""


def store(host: Host) -> dict[str, Any]:
    """Topic `s3` as the host's own kvlab sees it, with the key that its profile uses.

    Raises:
        KvlabError: its kvlab did not answer; the sentence says why.
    """
    command = host.command(
        TOOLS_PYTHON, ["-m", "kvlab.doctor.store", str(host.get("serving_lab_file", HOST_LAB))]
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBES_S)
    except subprocess.TimeoutExpired as error:
        raise KvlabError(f"kvlab on {host.name} did not answer within {PROBES_S:.0f} s") from error
    lines = done.stderr.strip().splitlines()
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        reason = lines[-1] if lines else f"it ended with status {done.returncode}"
        raise KvlabError(
            f"kvlab on {host.name} ({TOOLS_PYTHON}) says nothing of the store: {reason}"
        ) from error
    return answer


def _environment() -> dict[str, str]:
    import os

    return {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "minimal",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
