#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: reads cufile.json and cuobj.json as a client finds them, and says what is wrong."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cuobject_config_facts
short_description: Validate the configuration of cuObject as a client finds it
version_added: "0.1.0"
description:
  - Read-only. Follows the two variables of the environment file to the two files, and holds them against the host.
options:
  env_file:
    description: The file with CUFILE_ENV_PATH_JSON and CUOBJ_ENV_PATH_JSON.
    type: path
    required: true
  kind:
    description: The C(rdma_peer_type) that the host's evidence allows.
    type: str
    choices: [dmabuf, nvidia_peermem]
    required: true
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Validate what was written
  kvlab.lab.cuobject_config_facts:
    env_file: /etc/kvlab/gpudirect.env
    kind: dmabuf
  register: __gpudirect_written
"""

RETURN = r"""
problems:
  description: A sentence for each thing that is wrong; empty when a client finds what it needs.
  type: list
  elements: str
  returned: always
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import rdma_sysfs

VARIABLES = ("CUFILE_ENV_PATH_JSON", "CUOBJ_ENV_PATH_JSON")


def addresses(sysfs_root):
    """IPv4 addresses of the host's RDMA ports."""
    return {
        gid["ipv4"]
        for device in rdma_sysfs.devices(sysfs_root)
        for port in device["ports"]
        for gid in port["gids"]
        if gid["ipv4"]
    }


def problems_of(env_file, kind, own):
    """Sentences on what a client would not find, or find wrong."""
    try:
        lines = Path(env_file).read_text().splitlines()
    except OSError as error:
        yield f"{env_file} cannot be read: {error.strerror}"
        return
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    documents = []
    for name in VARIABLES:
        if name not in values:
            yield f"{env_file} does not set {name}"
            continue
        try:
            document = json.loads(Path(values[name]).read_text())
            properties = document["properties"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            yield f"{values[name]} is not readable as JSON with properties: {error}"
            continue
        documents.append(document)
        listed = properties.get("rdma_dev_addr_list") or []
        if not listed:
            yield f"{values[name]} has an empty rdma_dev_addr_list, with which cuObject uses HTTP in silence"
        for address in listed:
            if address not in own:
                yield f"{values[name]} lists {address}, which no RDMA port of this host has"
        if properties.get("rdma_peer_type") != kind:
            yield f"{values[name]} has rdma_peer_type {properties.get('rdma_peer_type')}, and the host has {kind}"
    if len(documents) == 2 and documents[0] != documents[1]:
        yield "cufile.json and cuobj.json differ, so that it depends on the client's release which one counts"


def main():
    module = AnsibleModule(
        argument_spec={
            "env_file": {"type": "path", "required": True},
            "kind": {"type": "str", "choices": ["dmabuf", "nvidia_peermem"], "required": True},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        own = addresses(given["sysfs_root"])
    except rdma_sysfs.RdmaSysfsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, problems=list(problems_of(given["env_file"], given["kind"], own)))


if __name__ == "__main__":
    main()
