#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what preflight judges about a host. It collects and decides nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: preflight_facts
short_description: Collect what preflight judges about a host
version_added: "0.1.0"
description:
  - Read-only. Reports platform, Python, memory, disk, compiler, listening ports and object-store reachability.
  - The judgement is made by C(kvlab.checks.preflight), so that a recorded host can be judged again.
options:
  state_dir:
    description: Folder in which the lab keeps its state.
    type: path
    required: true
  python:
    description: Python interpreter to build the serving environment with.
    type: str
    default: python3
  ports:
    description: Ports that the lab wants to listen on, by purpose.
    type: dict
    default: {}
  address:
    description: Address that it listens on.
    type: str
    default: 127.0.0.1
  model_dir:
    description: Model directory named by the user; empty for the test model.
    type: str
    default: ""
  max_model_len:
    description: Longest context that is to be served.
    type: int
    default: 0
  endpoint:
    description: Address of an object store that must already answer; empty when the lab starts its own.
    type: str
    default: ""
  access_key:
    description: Access key to try on I(endpoint).
    type: str
    default: ""
  secret_key:
    description: Secret key to try on I(endpoint).
    type: str
    default: ""
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the host
  kvlab.lab.preflight_facts:
    state_dir: /srv/lab/.lab
    ports: {s3: 9020}
  register: __preflight_facts
"""

RETURN = r"""
facts:
  description: The facts; the judge's input.
  type: dict
  returned: always
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def _python_version(interpreter):
    """Version such as '3.11.7' of an interpreter, or None when it does not run; and whether it has venv."""
    code = "import platform, importlib.util as u; print(platform.python_version(), bool(u.find_spec('ensurepip')))"
    try:
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {"version": None, "venv": False}
    words = done.stdout.split()
    return (
        {"version": words[0], "venv": words[1] == "True"}
        if done.returncode == 0
        else {"version": None, "venv": False}
    )


def _memory():
    """Total and available memory in bytes."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return {
        name: int(fields[key].split()[0]) * 1024
        for name, key in (("total", "MemTotal"), ("available", "MemAvailable"))
    }


def _existing(path):
    """The nearest folder above that exists: where the state folder will be made."""
    while not path.exists():
        path = path.parent
    return path


def _ports(state_dir, address, ports):
    from kvlab import ports as tcp
    from kvlab.serving import processes

    own = {process.pid for process in processes.of_lab(state_dir)}
    found = []
    for purpose, port in ports.items():
        holder = tcp.holder(address, int(port))
        entry = {
            "purpose": purpose,
            "port": int(port),
            "held": tcp.is_taken(address, int(port)),
            "own": False,
        }
        if holder is not None:
            entry.update(own=holder.pid in own, pid=holder.pid, process=holder.name())
        found.append(entry)
    return found


def _endpoint(endpoint, access_key, secret_key):
    """Whether an object store that is not the lab's own answers and takes the credentials."""
    from botocore.exceptions import BotoCoreError, ClientError

    from kvlab.objectscale import s3

    try:
        s3.client(endpoint, access_key, secret_key).list_buckets()
    except (BotoCoreError, ClientError, ValueError) as error:
        return {"endpoint": endpoint, "problem": str(s3.explain(error, endpoint))}
    return {"endpoint": endpoint, "problem": None}


def _model(folder, max_model_len):
    """What is wrong with a model directory that the user named, or None."""
    from kvlab.errors import KvlabError
    from kvlab.testmodel import inspect_model

    try:
        limit = inspect_model(Path(folder)).max_position_embeddings
    except KvlabError as error:
        return {
            "dir": folder,
            "problem": str(error),
            "max_position_embeddings": None,
            "max_model_len": max_model_len,
        }
    return {"dir": folder, "problem": None, "max_position_embeddings": limit, "max_model_len": max_model_len}


def main():
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "python": {"type": "str", "default": "python3"},
            "ports": {"type": "dict", "default": {}},
            "address": {"type": "str", "default": "127.0.0.1"},
            "model_dir": {"type": "str", "default": ""},
            "max_model_len": {"type": "int", "default": 0},
            "endpoint": {"type": "str", "default": ""},
            "access_key": {"type": "str", "default": "", "no_log": False},
            "secret_key": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    state_dir = Path(wanted["state_dir"])
    where = _existing(state_dir)
    disk = shutil.disk_usage(where)
    try:
        from kvlab.serving.supervisor import Supervisor

        facts = {
            "state_dir": str(state_dir),
            "system": platform.system(),
            "machine": platform.machine(),
            "python": {"interpreter": wanted["python"], **_python_version(wanted["python"])},
            "memory": _memory(),
            "disk": {"path": str(where), "free": disk.free, "writable": os.access(where, os.W_OK)},
            "serving_venv_ready": (state_dir / "venv" / ".kvlab-stack.json").exists(),
            "compiler": module.get_bin_path("g++") or module.get_bin_path("c++"),
            "make": module.get_bin_path("make"),
            "root": os.geteuid() == 0,
            "apt": module.get_bin_path("apt-get"),
            "sockets": [str(Supervisor(state_dir).socket)],
            "ports": _ports(state_dir, wanted["address"], wanted["ports"]),
            "model": _model(wanted["model_dir"], wanted["max_model_len"]) if wanted["model_dir"] else None,
            "object_store": _endpoint(wanted["endpoint"], wanted["access_key"], wanted["secret_key"])
            if wanted["endpoint"]
            else None,
        }
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
