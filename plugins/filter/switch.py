# SPDX-License-Identifier: Apache-2.0
"""Ansible filter `switch_snippets`: the switches' side of what the role rdma_fabric sets on hosts, as text to review.

Nothing of it was ever run on a switch. Names of tables and keys: sonic-net/sonic-buildimage,
src/sonic-yang-models/yang-models (port, port-qos-map, dscp-tc-map, tc-queue-map, tc-priority-group-map,
pfc-priority-queue-map, wred-profile, queue). Commands of OS10: Dell SmartFabric OS10 user guide 10.5, "Configure RoCE
on the switch"; Microsoft's Azure Local reference configurations for PowerSwitch (network-qos, queuing, ets mode).
"""

from __future__ import annotations

DOCUMENTATION = r"""
name: switch_snippets
short_description: Configuration of switch ports that fits the hosts' RoCE settings
version_added: "0.1.0"
description:
  - Renders one text for each switch from the values of all hosts, a fragment of C(config_db.json) or commands for OS10.
  - What does not fit together is a sentence in C(problems), and no text is given then.
options:
  _input:
    description: For each host C(host), C(priority), C(dscp), C(cnp_dscp), C(mtu), C(dcbx) and C(ports).
    type: list
    elements: dict
    required: true
  wishes:
    description: C(uplinks), C(mtu_overhead) and C(ecn) (C(min_kb), C(max_kb), C(probability)), C(share).
    type: dict
    required: true
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
rendered: "{{ hosts | kvlab.lab.switch_snippets(wishes) }}"
"""

RETURN = r"""
_value:
  description: C(problems), a list of sentences, and C(files), content by file name.
  type: dict
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

NAME = "KVLAB"
CLASSES, DSCPS = range(8), range(64)

LARGEST_MTU = 9216
"""sonic-port.yang's range ends there, and so do OS10's jumbo frames."""

FRAME_OVERHEAD = 22
"""Ethernet header, VLAN tag and checksum, which some switches count."""

PORTS = {
    "sonic": (re.compile(r"Ethernet\d+"), "Ethernet0"),
    "os10": (re.compile(r"ethernet\d+/\d+/\d+(:\d+)?"), "ethernet1/1/1"),
}
"""How a port is called, and an example, by operating system of the switch."""

SAME = ("priority", "dscp", "cnp_dscp", "mtu", "dcbx")


def priority_of(dscp: int, roce_dscp: int, priority: int) -> int:
    """The class of a DSCP, as on the NIC: eight DSCPs to a priority, but for that of RoCE."""
    return priority if dscp == roce_dscp else dscp >> 3


def _fabric_problems(host: Mapping[str, Any]) -> Iterable[str]:
    """What is wrong with the values that all hosts share."""
    if host["priority"] not in CLASSES:
        yield f"rdma_fabric_priority is {host['priority']}; it must be 0 to 7."
    for name in ("dscp", "cnp_dscp"):
        if host[name] not in DSCPS:
            yield f"rdma_fabric_{name} is {host[name]}; it must be 0 to 63."
    if priority_of(host["cnp_dscp"], host["dscp"], host["priority"]) == host["priority"]:
        yield (
            f"rdma_fabric_cnp_dscp {host['cnp_dscp']} falls into priority {host['priority']}, the lossless one: "
            "congestion notifications would wait behind the traffic that they are to slow down. Choose one of another "
            "priority, such as 48."
        )


def _port_problems(ports: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What is wrong with the ports."""
    seen: dict[tuple[str, str], str] = {}
    kinds: dict[str, str] = {}
    for port in ports:
        switch, kind, name, whose = port["switch"], port["os"], port["port"], port["host"]
        if kind not in PORTS:
            yield f"{whose}: switch {switch} has os {kind}; known are {', '.join(PORTS)}."
            continue
        pattern, example = PORTS[kind]
        if not pattern.fullmatch(name):
            yield f"{whose}: {name} of switch {switch} is no name of a {kind} port, such as {example}."
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", switch):
            yield f"{whose}: {switch!r} is no name of a switch; a file is named by it."
        if kinds.setdefault(switch, kind) != kind:
            yield f"{whose}: switch {switch} is {kind} here and {kinds[switch]} elsewhere."
        if (other := seen.setdefault((switch, name), whose)) != whose:
            yield f"{name} of switch {switch} is named by {other} and by {whose}."


def problems(
    hosts: list[Mapping[str, Any]], wishes: Mapping[str, Any], ports: list[Mapping[str, Any]]
) -> list[str]:
    """One sentence for each thing that does not fit."""
    first, ecn = hosts[0], wishes["ecn"]
    out = []
    for name in SAME:
        values = {host["host"]: host[name] for host in hosts}
        if len(set(values.values())) > 1:
            said = ", ".join(f"{value} on {host}" for host, value in sorted(values.items()))
            out.append(f"rdma_fabric_{name} must be the same on all hosts of a fabric, and is {said}.")
    out += _fabric_problems(first)
    mtu = int(first["mtu"]) + int(wishes["mtu_overhead"])
    if int(wishes["mtu_overhead"]) < FRAME_OVERHEAD or mtu > LARGEST_MTU:
        out.append(
            f"rdma_fabric_mtu {first['mtu']} with switch_snippets_mtu_overhead {wishes['mtu_overhead']} is "
            f"{mtu}; switches take up to {LARGEST_MTU}, and a frame is {FRAME_OVERHEAD} longer than the host's MTU."
        )
    if not 0 < int(ecn["min_kb"]) < int(ecn["max_kb"]) or not 0 < int(ecn["probability"]) <= 100:
        out.append(
            f"ECN marks from {ecn['min_kb']} KB to {ecn['max_kb']} KB with {ecn['probability']} %; the first must be "
            "above 0 and below the second, and the probability 1 to 100."
        )
    if not 0 < int(wishes["share"]) < 100:
        out.append(f"switch_snippets_share is {wishes['share']}; it must be 1 to 99 percent.")
    if first["priority"] == 0:
        out.append(
            "rdma_fabric_priority is 0, where all traffic without a mark is; a lossless class needs one of its own."
        )
    if first["dcbx"] == "fw" and any(port["os"] == "sonic" for port in ports):
        out.append(
            "rdma_fabric_dcbx is fw, where the NIC takes its settings from the switch, but SONiC "
            "speaks no DCBX; set it to os."
        )
    if not ports:
        out.append("No host names a port of a switch; set switch_snippets_ports in host_vars.")
    return [*out, *_port_problems(ports)]


def sonic(host: Mapping[str, Any], wishes: Mapping[str, Any], ports: list[str]) -> str:
    """A fragment of config_db.json. Thresholds there are bytes; every value is a text."""
    lossless, ecn = str(host["priority"]), wishes["ecn"]
    same = {str(one): str(one) for one in CLASSES}
    thresholds = {}
    for color in ("green", "yellow", "red"):
        thresholds |= {
            f"wred_{color}_enable": "true",
            f"{color}_min_threshold": str(int(ecn["min_kb"]) * 1024),
            f"{color}_max_threshold": str(int(ecn["max_kb"]) * 1024),
            f"{color}_drop_probability": str(ecn["probability"]),
        }
    dscps = {str(one): str(priority_of(one, host["dscp"], host["priority"])) for one in DSCPS}
    maps = {
        "dscp_to_tc_map": NAME,
        "tc_to_queue_map": NAME,
        "tc_to_pg_map": NAME,
        "pfc_to_queue_map": NAME,
        "pfc_enable": lossless,
    }
    # The software watchdog: a NIC that pauses for ever must not stop the switch.
    maps["pfcwd_sw_enable"] = lossless
    mtu = str(int(host["mtu"]) + int(wishes["mtu_overhead"]))
    tables = {
        "DSCP_TO_TC_MAP": {NAME: dscps},
        "TC_TO_QUEUE_MAP": {NAME: same},
        "TC_TO_PRIORITY_GROUP_MAP": {NAME: same},
        "MAP_PFC_PRIORITY_TO_QUEUE": {NAME: same},
        "WRED_PROFILE": {f"{NAME}_LOSSLESS": {"ecn": "ecn_all", **thresholds}},
        "PORT": {port: {"mtu": mtu} for port in ports},
        "PORT_QOS_MAP": dict.fromkeys(ports, maps),
        "QUEUE": {f"{port}|{lossless}": {"wred_profile": f"{NAME}_LOSSLESS"} for port in ports},
    }
    return json.dumps(tables, indent=2) + "\n"


def _ranges(numbers: Iterable[int]) -> str:
    """0-2,4-7 for 0, 1, 2, 4, 5, 6, 7."""
    out: list[list[int]] = []
    for number in sorted(numbers):
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in out)


def os10(host: Mapping[str, Any], wishes: Mapping[str, Any], ports: list[str]) -> str:
    """Commands of OS10's configuration mode. Thresholds there are KB."""
    lossless, ecn, share = host["priority"], wishes["ecn"], int(wishes["share"])
    others = [one for one in CLASSES if one != lossless]
    queues = sorted({0, lossless})
    lines = [
        f"! Lossless priority {lossless}, DSCP {host['dscp']}. Rendered by kvlab, never run on a switch: review it."
    ]
    # With dcbx fw the NIC takes what the switch says; with os it listens to nobody.
    lines += ["dcbx enable"] if host["dcbx"] == "fw" else []
    lines += [f"wred {NAME}_ECN",
              f" random-detect color green minimum-threshold {ecn['min_kb']} maximum-threshold {ecn['max_kb']} "
              f"drop-probability {ecn['probability']}",
              " random-detect ecn"]  # fmt: skip
    for queue in queues:
        lines += [f"class-map type queuing {NAME}_Q{queue}", f" match queue {queue}"]
    lines += [
        f"class-map type network-qos {NAME}_LOSSLESS",
        f" match qos-group {lossless}",
        f"trust dscp-map {NAME}_DSCP",
    ]
    for group in CLASSES:
        members = [one for one in DSCPS if priority_of(one, host["dscp"], lossless) == group]
        lines.append(f" qos-group {group} dscp {_ranges(members)}")
    lines += [
        f"qos-map traffic-class {NAME}_QUEUES",
        f" queue 0 qos-group {_ranges(others)}",
        f" queue {lossless} qos-group {lossless}",
    ]
    lines += [
        f"policy-map type network-qos {NAME}_PFC",
        f" class {NAME}_LOSSLESS",
        "  pause",
        f"  pfc-cos {lossless}",
    ]
    lines += [f"policy-map type queuing {NAME}_ETS", f" class {NAME}_Q0", f"  bandwidth percent {100 - share}",
              f" class {NAME}_Q{lossless}", f"  bandwidth percent {share}", f"  random-detect {NAME}_ECN"]  # fmt: skip
    for port in ports:
        lines += [
            f"interface {port}",
            f" mtu {int(host['mtu']) + int(wishes['mtu_overhead'])}",
            " flowcontrol receive off",
            " flowcontrol transmit off",
            " priority-flow-control mode on",
            f" service-policy input type network-qos {NAME}_PFC",
            f" service-policy output type queuing {NAME}_ETS",
            " ets mode on",
            f" qos-map traffic-class {NAME}_QUEUES",
            f" trust-map dscp {NAME}_DSCP",
        ]
    return "\n".join([*lines, "end", ""])


RENDER = {"sonic": (sonic, "config_db.json"), "os10": (os10, "os10.cfg")}


def switch_snippets(hosts: list[Mapping[str, Any]], wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Texts by file name, or why there are none; see DOCUMENTATION."""
    ports = [{**port, "host": host["host"]} for host in hosts for port in host["ports"]]
    ports += [{**port, "host": "switch_snippets_uplinks"} for port in wishes["uplinks"]]
    found = problems(hosts, wishes, ports)
    if found:
        return {"problems": found, "files": {}}
    files = {}
    for switch in sorted({port["switch"] for port in ports}):
        own = [port for port in ports if port["switch"] == switch]
        render, suffix = RENDER[own[0]["os"]]
        files[f"{switch}.{suffix}"] = render(hosts[0], wishes, [port["port"] for port in own])
    return {"problems": [], "files": files}


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Any]:
        return {"switch_snippets": switch_snippets}
