"""The hosts of the inventory that the suite runs against: a command, a file, a probe or a variable of one of them.

A host of this machine (connection local) is used in this process; any other over the connection that Ansible uses,
through testinfra.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import testinfra
from testinfra.utils.ansible_runner import AnsibleRunner

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, remote, run_probe

LOCAL = "inventories/local"
# The venv of role kvlab_tools: kvlab, boto3 and httpx.
TOOLS_PYTHON = "/opt/kvlab/tools/bin/python"
TOOLS_KVLAB = "/opt/kvlab/tools/bin/kvlab"
_PIECE = 60_000  # bytes of a file in one command; in base64 that is under Linux's 128 KiB for an argument


@dataclass(frozen=True)
class Host:
    """One host of the inventory."""

    name: str
    inventory: Path
    local: bool

    @functools.cached_property
    def testinfra(self) -> Any:
        """testinfra's host, for its modules (file, service, socket)."""
        return testinfra.get_host(f"ansible://{self.name}?ansible_inventory={self.inventory}")

    def run(self, command: str) -> Any:
        """Run a shell command: rc, stdout, stderr. KvlabError when the host cannot be reached."""
        try:
            return self.testinfra.run(command)
        except RuntimeError as error:  # testinfra's word for ssh's own failure, status 255
            raise KvlabError(
                f"host {self.name} cannot be reached over ssh; try `ssh {self.name}` as Ansible would ({error})."
            ) from error

    def output(self, command: str) -> str:
        """Stdout of a shell command that must succeed."""
        done = self.run(command)
        if done.rc != 0:
            raise KvlabError(
                f"on {self.name}, `{command[:120]}` ended with status {done.rc}: {done.stderr[-500:]}"
            )
        return str(done.stdout)

    def read(self, path: str) -> str:
        """A text file, without a trace in any log (testinfra logs what commands print at level DEBUG)."""
        with _quiet("testinfra"):
            done = self.run(f"cat {shlex.quote(path)}")
        if done.rc != 0:
            raise KvlabError(f"{path} on {self.name} cannot be read: {done.stderr.strip()[-200:]}")
        return str(done.stdout)

    def variables(self, *names: str) -> dict[str, Any]:
        """Variables as the inventory gives them to this host, templates resolved; an undefined one is None."""
        wanted = ", ".join(f"'{name}': {name} | default(none)" for name in names)
        given = self.testinfra.ansible("ansible.builtin.debug", f"msg={{{{ {{{wanted}}} }}}}", check=False)[
            "msg"
        ]
        return dict(given)

    def probe(
        self,
        name: str,
        job: Job,
        python: str,
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120,
    ) -> Facts:
        """Run a probe of this checkout on the host with the interpreter `python`."""
        if self.local:
            return run_probe(name, job, python, env=env, timeout_s=timeout_s)
        line = remote.command(name, job, python, self._archive, env=env, timeout_s=timeout_s)
        done = self.run(line)
        return remote.facts(name, done.rc, done.stdout, done.stderr, host=self.name, timeout_s=timeout_s)

    @functools.cached_property
    def _archive(self) -> str:
        """Where this checkout's probes lie on the host, brought there once."""
        place = self.output("mktemp --suffix=.kvlab-probes.zip").strip()
        content = remote.archive("objectscale")
        for begin in range(0, len(content), _PIECE):
            piece = base64.b64encode(content[begin : begin + _PIECE]).decode()
            self.output(f"printf %s {piece} | base64 -d >> {place}")
        return place

    def close(self) -> None:
        """Remove what was brought to the host."""
        if "_archive" in self.__dict__:
            self.output(f"rm -f {self._archive}")


@dataclass(frozen=True)
class Inventory:
    """An inventory and its hosts."""

    path: Path
    groups: Mapping[str, Sequence[str]]
    hostvars: Mapping[str, Mapping[str, Any]]

    @property
    def gpu_hosts(self) -> list[str]:
        return list(self.groups.get("gpu_hosts", ()))

    @property
    def object_stores(self) -> list[str]:
        return list(self.groups.get("object_stores", ()))

    def host(self, name: str) -> Host:
        return Host(name, self.path, self.hostvars.get(name, {}).get("ansible_connection") == "local")


def load(path: Path) -> Inventory:
    """Read an inventory with `ansible-inventory`; KvlabError when there is none or it has no gpu_hosts."""
    if not path.exists():
        raise KvlabError(
            f"there is no inventory {path}; name one with --inventory (inventories/ holds some)."
        )
    try:
        runner = AnsibleRunner.get_runner(str(path))
        listed = runner.inventory
    except (AssertionError, ValueError) as error:  # testinfra asserts the status of ansible-inventory
        raise KvlabError(f"ansible-inventory cannot read {path}: {str(error)[-500:]}") from error
    groups = {group: runner.get_hosts(group) for group in ("gpu_hosts", "object_stores") if group in listed}
    found = Inventory(path, groups, listed["_meta"].get("hostvars", {}))
    if not found.gpu_hosts:
        raise KvlabError(
            f"the inventory {path} has no host in its group gpu_hosts, so there is nothing to prove."
        )
    return found


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def as_json(text: str, what: str) -> Any:
    """Parse a file that was read from a host."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise KvlabError(f"{what} is no JSON ({error}); run site.yml to write it anew.") from error
