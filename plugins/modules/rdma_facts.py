#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: RDMA devices, ports and GIDs, and the GID index that RoCE v2 traffic is to use."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: rdma_facts
short_description: Collect RDMA devices, ports and GIDs of a host
version_added: "0.1.0"
description:
  - Read-only, and needs no RDMA tool, only sysfs.
  - The GID index is computed for each port, because it depends on the order in which a NIC got its addresses and can
    change with a reboot. Only a RoCE v2 GID that can be routed is taken; an IPv4 address goes before IPv6, and the
    port's own netdev before a VLAN or tunnel above it.
options:
  devices:
    description: RDMA devices to report, such as mlx5_0; empty for all. A device that is not there is a failure.
    type: list
    elements: str
    default: []
  networks:
    description: Networks that the chosen address must be in, such as 192.0.2.0/24; empty for any.
    type: list
    elements: str
    default: []
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the RDMA devices
  kvlab.lab.rdma_facts:
    networks: [192.0.2.0/24]
  register: __rdma_fabric_facts
"""

RETURN = r"""
devices:
  description:
    - The devices by name, each with C(name), C(pci), C(numa_node), C(type), C(firmware), C(board_id), C(node_guid) and
      C(ports). What the kernel does not say is null.
    - A port has C(port), C(state), C(phys_state), C(link_layer), C(rate), C(netdev), C(mtu) in bytes, C(gids),
      C(gid_index), C(address) and C(gid_reason), the sentence why there is no index.
    - A GID has C(index), C(gid), C(type), which is RoCE v1, RoCE v2 or IB, C(netdev), C(ipv4) and C(scope), which is
      routable or link-local.
  type: list
  elements: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import rdma_sysfs


def with_gid(port, networks):
    """The port with the GID to use, or with the reason why there is none."""
    gid, reason = rdma_sysfs.choose_gid(port, networks)
    if gid is None:
        return {**port, "gid_index": None, "address": None, "gid_reason": reason}
    return {**port, "gid_index": gid["index"], "address": gid["ipv4"] or gid["gid"], "gid_reason": None}


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "default": []},
            "networks": {"type": "list", "elements": "str", "default": []},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        devices = rdma_sysfs.devices(wanted["sysfs_root"], wanted["devices"])
        for device in devices:
            device["ports"] = [with_gid(port, wanted["networks"]) for port in device["ports"]]
    except rdma_sysfs.RdmaSysfsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, devices=devices)


if __name__ == "__main__":
    main()
