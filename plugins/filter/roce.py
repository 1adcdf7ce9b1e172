# SPDX-License-Identifier: Apache-2.0
"""Ansible filter `roce_config`: the settings of one RoCE port, as the program of the role rdma_fabric reads them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: roce_config
short_description: Settings of one RoCE port as a file of the role rdma_fabric
version_added: "0.1.0"
description:
  - One place decides what lossless RoCE v2 means for a port.
options:
  _input:
    description: A port of M(kvlab.lab.roce_ports).
    type: dict
    required: true
  wishes:
    description: Values of the role's variables.
    type: dict
    required: true
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
files: "{{ ports | map('kvlab.lab.roce_config', wishes) }}"
"""

RETURN = r"""
_value:
  description: C(content) and C(mode) of the file.
  type: dict
"""

import json
from collections.abc import Mapping
from typing import Any

ECN_CAPABLE = 2
"""Sent as capable of ECN, or a switch drops what it should mark (RFC 3168)."""

ARP_IGNORE, ARP_ANNOUNCE, RP_FILTER = 2, 2, 2
"""A port answers for its own address alone; a strict reverse-path filter (1) drops RoCE packets without a word
(rdma-core, Documentation/librdmacm.md)."""


def type_of_service(dscp: int) -> int:
    """The whole byte: DSCP 26 with the bit of ECN is 106."""
    return dscp << 2 | ECN_CAPABLE


def roce_config(port: Mapping[str, Any], wishes: Mapping[str, Any]) -> dict[str, str]:
    """The file of one port; see DOCUMENTATION."""
    route = None
    if port["shared"]:
        gateways: Mapping[str, str] = wishes["gateway"]
        route = {
            "table": port["table"],
            "address": port["address"],
            "network": port["network"],
            "gateway": gateways.get(port["network"]),
        }
    config = {
        "netdev": port["netdev"],
        "interface": port["interface"],
        "mtu": int(wishes["mtu"]),
        "qos": {
            "dcbx": wishes["dcbx"],
            "trust": "dscp",
            "dscp2prio": {str(wishes["dscp"]): int(wishes["priority"])},
            "pfc": [int(wishes["priority"])],
        },
        "ecn": {"priority": int(wishes["priority"]), "cnp_dscp": int(wishes["cnp_dscp"])}
        if wishes["ofed"]
        else None,
        "roce_mode": "RoCE v2",
        "tos": type_of_service(int(wishes["dscp"])),
        # rdma_cm's setting reaches its own connections alone; cuObject makes its own.
        "traffic_class": bool(wishes["ofed"]),
        "sysctl": {"arp_ignore": ARP_IGNORE, "arp_announce": ARP_ANNOUNCE, "rp_filter": RP_FILTER},
        "source_route": route,
        "sysfs_root": wishes["sysfs_root"],
        "proc_root": wishes["proc_root"],
        "configfs_root": wishes["configfs_root"],
    }
    return {"content": json.dumps(config, indent=1) + "\n", "mode": "0644"}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        return {"roce_config": roce_config}
