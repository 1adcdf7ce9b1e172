#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one node of a replica, a systemd-nspawn machine with its own launcher."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: replica_node
short_description: Boot, end or remove one node of a replica
version_added: "0.1.0"
description:
  - A node is a folder with a layer over a shared base, and a launcher that boots it again after each reboot.
  - A node whose base changed is made anew; one whose links or mounts changed is ended and booted again.
options:
  name:
    description: Name of the node, which is its hostname.
    type: str
    required: true
  folder:
    description: Folder of the node.
    type: path
    required: true
  state:
    description: C(started), or C(absent) with nothing left of it.
    type: str
    choices: [started, absent]
    default: started
  launcher:
    description: Path of node.py (role replica); needed to start one.
    type: path
  base:
    description: Root of the operating system that the node is laid over; it is never written.
    type: path
  files:
    description: Files of a new node, each with C(path), C(content) and C(mode). They are written once.
    type: list
    elements: dict
    default: []
  links:
    description: Links of the node, each with C(inside), C(outside), C(bridge), C(addresses) and C(mtu).
    type: list
    elements: dict
    default: []
  binds:
    description: Folders of this machine that the node sees read-only, by their path in the node.
    type: dict
    default: {}
  capabilities:
    description: Capabilities beyond those that systemd-nspawn gives.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Looks at the launcher and changes nothing.
    support: full
  diff_mode:
    description: Shows whether the node runs and from which base.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Boot a node
  kvlab.lab.replica_node:
    name: node1
    folder: /srv/lab/replica/nodes/node1
    launcher: /srv/kvlab/roles/replica/files/node.py
    base: /srv/lab/replica/base-1f0c
    links:
      - {inside: mgmt0, outside: kv0f3a2cn1m, bridge: kv0f3a2cm, addresses: [10.77.0.11/24], mtu: 1500}
"""

RETURN = r"""
pid:
  description: Process id of the launcher; 0 when none runs.
  type: int
  returned: always
"""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

# The launcher itself gives the node 15 s for an orderly end.
END_S = 25
# A launcher writes its pid before anything else.
START_S = 10


class Node:
    """One node's folder, and the launcher that runs from it."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.folder = Path(wanted["folder"])
        self.config = self.folder / "node.json"

    def pid(self):
        """Process id of its launcher, 0 when none runs: a number that another process got since does not count."""
        try:
            pid = int((self.folder / "launcher.pid").read_text())
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if str(self.config).encode() in words else 0

    def has(self):
        """The configuration that it was last started with."""
        try:
            return json.loads(self.config.read_text())
        except (OSError, ValueError):
            return {}

    def wants(self):
        """The configuration that node.py is to read."""
        places = {name: str(self.folder / name) for name in ("upper", "work", "root")}
        files = {"console": str(self.folder / "console.log"), "pid_file": str(self.folder / "launcher.pid")}
        names = ("name", "base", "links", "capabilities")
        binds = {outside: inside for inside, outside in self.wanted["binds"].items()}
        return {**{name: self.wanted[name] for name in names}, **places, **files, "binds": binds}

    def end(self):
        """End the node in order, or by force when it takes too long; its processes end with the launcher."""
        pid = self.pid()
        for number, patience in ((signal.SIGTERM, END_S), (signal.SIGKILL, 5)):
            if not self.pid():
                return
            os.kill(pid, number)
            end = time.monotonic() + patience
            while self.pid() and time.monotonic() < end:
                time.sleep(0.1)

    def make(self):
        """The folders of a new node, with its files."""
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for file in self.wanted["files"]:
            path = self.folder / "upper" / file["path"].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(file["content"])
            path.chmod(int(file["mode"], 8))

    def start(self):
        """Start the launcher in a mount namespace of its own; returns the sentence of what went wrong, or ""."""
        self.config.write_text(json.dumps(self.wants(), indent=1) + "\n")
        log = self.folder / "launcher.log"
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "python3",
            self.wanted["launcher"],
            str(self.config),
        ]
        with open(log, "wb") as out:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd="/"
            )
        end = time.monotonic() + START_S
        while not self.pid() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if self.pid():
            return ""
        return f"the launcher of {self.wanted['name']} did not start: {log.read_text().strip() or 'it said nothing'}"

    def remove(self):
        """End it, and take away its folder and what a killed launcher left of its links."""
        links = self.has().get("links", [])
        self.end()
        for link in links:
            subprocess.run(["ip", "link", "del", link["outside"]], stderr=subprocess.DEVNULL, check=False)
        if self.folder.exists():
            shutil.rmtree(self.folder)


def bring(module, node):
    """Boot the node with the wanted configuration; returns the states before and after."""
    has, wants = node.has(), node.wants()
    before = {"runs": bool(node.pid()), "base": has.get("base", "")}
    same = before["runs"] and has == wants
    if not same and not module.check_mode:
        node.end()
        if has.get("base", "") != wants["base"]:
            node.remove()
            node.make()
        problem = node.start()
        if problem:
            module.fail_json(msg=problem)
    return not same, before, {"runs": True, "base": wants["base"]}


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "folder": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["started", "absent"], "default": "started"},
            "launcher": {"type": "path"},
            "base": {"type": "path"},
            "files": {"type": "list", "elements": "dict", "default": []},
            "links": {"type": "list", "elements": "dict", "default": []},
            "binds": {"type": "dict", "default": {}},
            "capabilities": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[("state", "started", ["launcher", "base"])],
        supports_check_mode=True,
    )
    node = Node(module.params)
    if module.params["state"] == "started":
        changed, before, after = bring(module, node)
    else:
        changed, before, after = node.folder.exists(), {"there": node.folder.exists()}, {"there": False}
        if changed and not module.check_mode:
            node.remove()
    module.exit_json(changed=changed, pid=node.pid(), diff={"before": before, "after": after})


if __name__ == "__main__":
    main()
