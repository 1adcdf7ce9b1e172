# SPDX-License-Identifier: Apache-2.0
"""The output of `mlnx_qos -i INTERFACE`, and the calls that lead from it to what is wanted. Standard library only.

A state has dcbx (os or fw), trust (pcp, dscp or none), dscp2prio ({DSCP: priority}, None unless trust is dscp),
cable_len in metres, pfc (the priorities that have it), and lists of eight: tsa and tc_bw (percent) by traffic class,
prio_tc, prio2buffer and buffer_size (bytes). The last two are None where the NIC does not say.
"""

from __future__ import annotations

import re

EIGHT = 8
ALGORITHMS = ("strict", "ets", "vendor")

_MAPPING = re.compile(r"\s*prio:(\d) dscp:([\d,]*)")
_TC = re.compile(r"tc: (\d) ratelimit: .*tsa: (\w+)(?:, bw: (\d+)%)?")
_PRIORITY = re.compile(r"\s+priority:\s+(\d)\s*$")


class QosError(Exception):
    """An output that is not understood, or a wish that no NIC can meet; the message says why."""


def parse(text):
    """The state that `mlnx_qos -i INTERFACE` shows; raises QosError when it is cut or from another tool."""
    dcbx = re.search(r"^DCBX mode: (OS|Firmware) controlled", text, re.MULTILINE)
    trust = re.search(r"^Priority trust state: (\w+)", text, re.MULTILINE)
    enabled = re.search(r"^\s+enabled ((?:\s+[01]){8})", text, re.MULTILINE)
    cable = re.search(r"^Cable len: (\d+)", text, re.MULTILINE)
    found = {
        "DCBX mode": dcbx,
        "Priority trust state": trust,
        "PFC configuration": enabled,
        "Cable len": cable,
    }
    if not all(found.values()):
        raise QosError(f"it has no line {', '.join(name for name, line in found.items() if not line)}")
    sizes = re.search(r"^Receive buffer size \(bytes\): ((?:\d+,){8})", text, re.MULTILINE)
    buffers = re.search(r"^\s+buffer ((?:\s+\d){8})", text, re.MULTILINE)
    state = {
        "dcbx": "os" if dcbx[1] == "OS" else "fw",
        "trust": trust[1],
        "dscp2prio": _mapping(text) if trust[1] == "dscp" else None,
        "cable_len": int(cable[1]),
        "pfc": [priority for priority, bit in enumerate(enabled[1].split()) if bit == "1"],
        "prio2buffer": [int(number) for number in buffers[1].split()] if buffers else None,
        "buffer_size": [int(size) for size in sizes[1].split(",")[:EIGHT]] if sizes else None,
        **_classes(text),
    }
    if None in state["prio_tc"]:
        raise QosError(f"it does not say which traffic class priority {state['prio_tc'].index(None)} is in")
    return state


def _mapping(text):
    pairs = [found.groups() for found in map(_MAPPING.match, text.splitlines()) if found]
    return {int(dscp): int(priority) for priority, codes in pairs for dscp in codes.split(",") if dscp}


def _classes(text):
    """Of each traffic class algorithm and percentage; of each priority its class. A class may go unmentioned."""
    tsa, tc_bw, prio_tc, current = ["vendor"] * EIGHT, [0] * EIGHT, [None] * EIGHT, None
    for line in text.splitlines():
        found, priority = _TC.match(line), _PRIORITY.match(line)
        if found:
            current = int(found[1])
            tsa[current], tc_bw[current] = found[2], int(found[3] or 0)
        elif priority and current is not None:
            prio_tc[int(priority[1])] = current
    return {"tsa": tsa, "tc_bw": tc_bw, "prio_tc": prio_tc}


def check(want):
    """Raises QosError for a wish that contradicts itself; what is None is not wished."""
    ranges = {"prio_tc": range(EIGHT), "tc_bw": range(101), "prio2buffer": range(EIGHT)}
    for name in ("prio_tc", "tsa", "tc_bw", "prio2buffer", "buffer_size"):
        values = want.get(name)
        if values is not None and len(values) != EIGHT:
            raise QosError(f"{name} has {len(values)} items; give eight, from 0 to 7")
        wrong = [value for value in values or [] if name in ranges and value not in ranges[name]]
        if wrong:
            raise QosError(f"{name} has {wrong[0]}; values from 0 to {ranges[name][-1]} are possible")
    wrong = [priority for priority in want.get("pfc") or [] if priority not in range(EIGHT)]
    if wrong:
        raise QosError(f"pfc has {wrong[0]}; priorities go from 0 to 7")
    for dscp, priority in (want.get("dscp2prio") or {}).items():
        if dscp not in range(64) or priority not in range(EIGHT):
            raise QosError(f"dscp2prio maps {dscp} to {priority}; a DSCP is 0 to 63, a priority 0 to 7")
    if want.get("dscp2prio") and want.get("trust") == "pcp":
        raise QosError("dscp2prio has no effect with trust pcp; set trust to dscp")
    if want.get("tc_bw") is not None and want.get("tsa") is None:
        raise QosError("tc_bw needs tsa beside it, because only ets classes have a percentage")
    if want.get("tsa") is not None:
        _check_ets(want["tsa"], want.get("tc_bw"))


def _check_ets(tsa, tc_bw):
    strange = [name for name in tsa if name not in ALGORITHMS]
    if strange:
        raise QosError(f"tsa has {strange[0]}; possible are {', '.join(ALGORITHMS)}")
    ets = [tc for tc, name in enumerate(tsa) if name == "ets"]
    if not ets and not any(tc_bw or []):
        return
    if tc_bw is None or sum(tc_bw) != 100 or any(tc_bw[tc] for tc in range(EIGHT) if tc not in ets):
        raise QosError(
            f"tc_bw is {tc_bw}; the percentages of the ets classes ({ets}) must total 100, and the others be 0"
        )


def differing(have, want):
    """The names of the settings that are wished and not so; a mapping counts when one of its entries differs."""
    names = []
    for name, wish in want.items():
        if wish is None:
            continue
        if name == "dscp2prio":
            same = have[name] is not None and all(have[name].get(dscp) == prio for dscp, prio in wish.items())
        else:
            same = have[name] == (sorted(set(wish)) if name == "pfc" else wish)
        if not same:
            names.append(name)
    return names


def calls(have, want):
    """The arguments of each call of mlnx_qos, after `-i INTERFACE`, in the order in which they must be made.

    Raises QosError where the NIC does not have what is wished.
    """
    off = differing(have, want)
    made = [["--dcbx", want["dcbx"]]] if "dcbx" in off else []
    if "trust" in off:
        made.append(["--trust", want["trust"]])  # mlnx_qos refuses it together with --dscp2prio
    if "dscp2prio" in off:
        if "trust" not in off and have["trust"] != "dscp":
            raise QosError(f"dscp2prio has no effect with trust {have['trust']}; set trust to dscp")
        known = have["dscp2prio"] or {}
        pairs = [(d, p) for d, p in sorted(want["dscp2prio"].items()) if known.get(d) != p]
        made.append([word for dscp, prio in pairs for word in ("--dscp2prio", f"set,{dscp},{prio}")])
    if {"pfc", "cable_len"} & set(off):
        # Each alone sets the other to 0: mlnx_qos writes both from what it was given.
        pfc = want["pfc"] if want.get("pfc") is not None else have["pfc"]
        length = want["cable_len"] if want.get("cable_len") is not None else have["cable_len"]
        made.append(["--pfc", _list(int(p in pfc) for p in range(EIGHT)), "--cable_len", str(length)])
    groups = (
        (("prio_tc", "--prio_tc"), ("tsa", "--tsa"), ("tc_bw", "--tcbw")),
        (("prio2buffer", "--prio2buffer"), ("buffer_size", "--buffer_size")),
    )
    for group in groups:
        absent = [name for name, _ in group if name in off and have[name] is None]
        if absent:
            raise QosError(f"this NIC shows no receive buffers, so {absent[0]} cannot be set; leave it out")
        if any(name in off for name, _ in group):
            made.append(
                [word for name, option in group if want.get(name) for word in (option, _list(want[name]))]
            )
    return made


def _list(values):
    return ",".join(map(str, values))
