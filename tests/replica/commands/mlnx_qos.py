#!/usr/bin/env python3
"""Stand-in for mlnx_qos: one port a file, mlnx_qos/INTERFACE.json, with the fields of DEFAULT.

It prints and refuses as Mellanox/mlnx-tools' python/mlnx_qos does, and shares its trap: --pfc and --cable_len each
write both, and the one that was not given becomes 0. Without -a a traffic class with no priority in it is not shown.
The file mlnx_qos/lldpad makes it warn of that daemon; "stuck" in a port's file names what it does not take.
"""

from __future__ import annotations

import argparse
import json
import sys

from standin import folder, log_call

DEFAULT = {
    "dcbx": "os",
    "trust": "pcp",
    "dscp2prio": {},
    "cable_len": 7,
    "pfc": [0] * 8,
    "tsa": ["vendor"] * 8,
    "tc_bw": [0] * 8,
    "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7],
    "prio2buffer": [0] * 8,
    "buffer_size": [524160, 0, 0, 0, 0, 0, 0, 0],
    "stuck": [],
}


def refuse(sentence: str) -> None:
    """mlnx_qos complains on standard output."""
    print(sentence)
    sys.exit(1)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def show(port: dict, every_class: bool) -> None:
    print(f"DCBX mode: {'OS' if port['dcbx'] == 'os' else 'Firmware'} controlled")
    print(f"Priority trust state: {port['trust']}")
    if port["trust"] == "dscp":
        print("dscp2prio mapping:")
        for prio in range(8):
            codes = [d for d in range(63, -1, -1) if int(port["dscp2prio"].get(str(d), d // 8)) == prio]
            for start in range(0, len(codes), 8):
                print(f"\tprio:{prio} dscp:" + "".join(f"{d:02d}," for d in codes[start : start + 8]))
    print("default priority:")
    if port["buffer_size"]:
        print("Receive buffer size (bytes): " + "".join(f"{size}," for size in port["buffer_size"]))
    print(f"Cable len: {port['cable_len']}")
    print("PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7")
    print("\tenabled     " + "".join(f"{bit}   " for bit in port["pfc"]))
    if port["buffer_size"]:
        print("\tbuffer      " + "".join(f"{number}   " for number in port["prio2buffer"]))
    for tc in range(8):
        members = [prio for prio in range(8) if port["prio_tc"][prio] == tc]
        if members or every_class:
            share = f", bw: {port['tc_bw'][tc]}%" if port["tsa"][tc] == "ets" else ""
            print(f"tc: {tc} ratelimit: unlimited, tsa: {port['tsa'][tc]}{share}")
            for prio in members:
                print(f"\t priority:  {prio}")


parser = argparse.ArgumentParser()
for names in (
    ["-i"],
    ["-f", "--pfc"],
    ["-p", "--prio_tc"],
    ["-s", "--tsa"],
    ["-t", "--tcbw"],
    ["-d", "--dcbx"],
):
    parser.add_argument(*names)
for name in ("--trust", "--cable_len", "--prio2buffer", "--buffer_size"):
    parser.add_argument(name)
parser.add_argument("--dscp2prio", action="append", default=[])
parser.add_argument("-a", action="store_true", dest="every_class")
wanted = parser.parse_args(log_call())
state = folder() / f"mlnx_qos/{wanted.i}.json"
if not state.exists():
    refuse("Interface not found")
port = {**DEFAULT, **json.loads(state.read_text())}
before = dict(port)
if (folder() / "mlnx_qos/lldpad").exists():
    print("****** WARNING: lldpad service is running and may overwrite your settings ******\n")
if wanted.dscp2prio and wanted.trust:
    refuse("trust and dscp2prio commands cannot be used at the same time.")
port["dcbx"] = wanted.dcbx or port["dcbx"]
if wanted.pfc or wanted.cable_len:
    port["pfc"] = numbers(wanted.pfc) if wanted.pfc else [0] * 8
    port["cable_len"] = int(wanted.cable_len or 0)
port["dscp2prio"] = {**port["dscp2prio"], **{w.split(",")[1]: w.split(",")[2] for w in wanted.dscp2prio}}
port["trust"] = wanted.trust or port["trust"]
if (wanted.prio2buffer or wanted.buffer_size) and not port["buffer_size"]:
    refuse("Buffers commands are not supported on your system")
for name, text in (
    ("prio2buffer", wanted.prio2buffer),
    ("buffer_size", wanted.buffer_size),
    ("prio_tc", wanted.prio_tc),
):
    port[name] = numbers(text) if text else port[name]
port["tsa"] = wanted.tsa.split(",") if wanted.tsa else port["tsa"]
if wanted.tcbw:
    port["tc_bw"] = numbers(wanted.tcbw)
    if any(share and port["tsa"][tc] != "ets" for tc, share in enumerate(port["tc_bw"])):
        refuse("ETS BW for a strict/vendor TC must be 0")
port.update({name: before[name] for name in port["stuck"]})
state.write_text(json.dumps(port))
show(port, wanted.every_class)
