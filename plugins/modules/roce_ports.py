#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: which RoCE ports of a host are for storage, and what each needs to answer for itself."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: roce_ports
short_description: Choose the RoCE ports of a host that storage traffic is to use
version_added: "0.1.0"
description:
  - Read-only. A port is taken when it has a RoCE v2 GID with an IPv4 address in one of O(networks).
  - Says which ports share a network, because those need source routing, and which interface management goes over, which
    must not be one of them.
options:
  networks:
    description: Networks of the storage traffic, such as 198.51.100.0/24; empty for any.
    type: list
    elements: str
    default: []
  exclude:
    description: RDMA devices or network interfaces that are not for storage.
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
- name: Choose the ports
  kvlab.lab.roce_ports:
    networks: [198.51.100.0/24]
  register: __rdma_fabric_found
"""

RETURN = r"""
ports:
  description:
    - Those that are taken, in the order of their devices.
    - Each has C(device), C(port), C(pci), C(gid_index), C(address), C(network) and C(shared), which says that another
      port is in the same network.
    - C(netdev) is the port's own interface, C(interface) the one with the address, which may be a VLAN or a bond above
      it, and C(instance) the latter as systemd writes it in the name of a unit.
    - C(table) is the number of its routing table, the address as one number, so that no other port has it at any time.
  type: list
  elements: dict
  returned: always
left_out:
  description: A sentence for each RDMA port that is not taken.
  type: list
  elements: str
  returned: always
management:
  description: Interfaces of the default route and of the ssh connection.
  type: list
  elements: str
  returned: always
"""

import ipaddress
import json
import re
from collections import Counter
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import rdma_sysfs, ssh_connection


def networks_of(addresses):
    """The network of each IPv4 address in what `ip -j -4 addr` says, and its interface."""
    return {
        one["local"]: (
            str(ipaddress.ip_interface(f"{one['local']}/{one['prefixlen']}").network),
            link["ifname"],
        )
        for link in addresses
        for one in link.get("addr_info", [])
        if "local" in one
    }


def escaped(name):
    """An interface's name within a unit's name, as systemd-escape writes it."""
    return re.sub(r"[^A-Za-z0-9:_.]", lambda found: f"\\x{ord(found.group()):02x}", name)


def choose(devices, networks, exclude, known):
    """(ports, sentences why others are left out); `known` is what `networks_of` gives."""
    ports, left_out = [], []
    for device in devices:
        for port in device["ports"]:
            name = port["netdev"] or f"{device['name']} port {port['port']}"
            if {device["name"], port["netdev"]} & set(exclude):
                left_out.append(f"{name} is excluded")
                continue
            gid, why = rdma_sysfs.choose_gid(port, networks)
            if gid is None:
                left_out.append(f"{name}: {why}")
            elif gid["ipv4"] is None:
                left_out.append(f"{name} has no IPv4 address, and cuObject's address list takes no other")
            else:
                network, interface = known.get(gid["ipv4"], (None, port["netdev"]))
                ports.append(
                    {
                        "device": device["name"],
                        "port": port["port"],
                        "pci": device["pci"],
                        "netdev": port["netdev"],
                        "interface": interface,
                        "instance": escaped(interface),
                        "gid_index": gid["index"],
                        "address": gid["ipv4"],
                        "network": network,
                        "table": int(ipaddress.IPv4Address(gid["ipv4"])),
                    }
                )
    count = Counter(port["network"] for port in ports)
    for port in ports:
        port["shared"] = port["network"] is not None and count[port["network"]] > 1
    return ports, left_out


def main():
    module = AnsibleModule(
        argument_spec={
            "networks": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    ip = module.get_bin_path("ip", required=True)

    def ask(*words):
        _status, out, _complaint = module.run_command([ip, "-j", *words], check_rc=True)
        return json.loads(out or "[]")

    try:
        devices = rdma_sysfs.devices(Path(module.params["sysfs_root"]))
        known = networks_of(ask("-4", "addr", "show"))
        ports, left_out = choose(devices, module.params["networks"], module.params["exclude"], known)
    except rdma_sysfs.RdmaSysfsError as error:
        module.fail_json(msg=f"{error}.")
    management = {route["dev"] for route in ask("-4", "route", "show", "default") if "dev" in route}
    here = ssh_connection.own_address()
    if here in known:
        management.add(known[here][1])
    module.exit_json(changed=False, ports=ports, left_out=left_out, management=sorted(management))


if __name__ == "__main__":
    main()
