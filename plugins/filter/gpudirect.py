# SPDX-License-Identifier: Apache-2.0
"""Ansible filter `gpudirect_files`: what a host's programs read to use GPU-direct, as files of the module file_tree."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpudirect_files
short_description: Files of the role gpudirect
version_added: "0.1.0"
description:
  - The record of what was found, cufile.json and cuobj.json with the same settings, and the two variables that name
    them for services and for shells.
  - Runs on the controller, where the kvlab Python package is installed.
options:
  _input:
    description: The result of M(kvlab.lab.gpu_topology_facts).
    type: dict
    required: true
  peer:
    description: The result of M(kvlab.lab.peer_memory_facts).
    type: dict
    required: true
  simulated:
    description: Whether the hardware is made up.
    type: bool
    required: true
  log_dir:
    description: Folder of the client's log; empty for the working folder of each process.
    type: str
    default: ''
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
files: "{{ __gpudirect_topology | kvlab.lab.gpudirect_files(__gpudirect_peer, false) }}"
"""

RETURN = r"""
_value:
  description: C(content) and C(mode) by path below the root.
  type: dict
"""

import json

from ansible.errors import AnsibleFilterError

try:
    from kvlab.kvcache import render
except ImportError as error:
    IMPORT_ERROR = error
else:
    IMPORT_ERROR = None

FOLDER = "etc/kvlab/gpudirect"
VARIABLES = {"CUFILE_ENV_PATH_JSON": f"/{FOLDER}/cufile.json", "CUOBJ_ENV_PATH_JSON": f"/{FOLDER}/cuobj.json"}
"""Client 1.4 reads the second name, and takes the first for settings alone (facts/objectscale.md 5.3)."""


def gpudirect_files(topology, peer, simulated, log_dir=""):
    """The files; see DOCUMENTATION."""
    if IMPORT_ERROR is not None:
        raise AnsibleFilterError(
            f"gpudirect_files needs the kvlab Python package beside ansible-core on the controller: {IMPORT_ERROR}. "
            "Run through ./lab, which installs both."
        )
    addresses = topology["rdma_dev_addr_list"]
    settings = _json(render.cuobject(addresses, peer["kind"], log_dir))
    record = {
        "simulated": bool(simulated),
        "peer_memory": {"kind": peer["kind"], **{k: peer[k] for k in ("judged", "evidence")}},
        "gpus": topology["gpus"],
        "nics": topology["nics"],
        "rdma_dev_addr_list": addresses,
        "problems": topology["problems"],
    }
    contents = {
        "etc/kvlab/gpudirect.json": _json(record),
        f"{FOLDER}/cufile.json": settings,
        f"{FOLDER}/cuobj.json": settings,
        "etc/kvlab/gpudirect.env": "".join(f"{name}={path}\n" for name, path in VARIABLES.items()),
        "etc/profile.d/kvlab-gpudirect.sh": "".join(
            f"export {name}={path}\n" for name, path in VARIABLES.items()
        ),
    }
    return {name: {"content": content, "mode": "0644"} for name, content in contents.items()}


def _json(value):
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


class FilterModule:
    """What Ansible loads."""

    def filters(self):
        return {"gpudirect_files": gpudirect_files}
