#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: lossless Ethernet on a ConnectX port, through mlnx_qos."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mlnx_qos
short_description: Set trust mode, PFC, ETS and receive buffers of a ConnectX port
version_added: "0.1.0"
description:
  - Reads what C(mlnx_qos) shows and changes only what differs. What is not given is left as it is.
  - The settings hold until the next boot. Let a unit make them again, and look after a reboot, not after this module.
  - Reads them once more after a change and fails when the NIC did not take one.
options:
  interface:
    description: Network interface of the port, such as ens3np0.
    type: str
    required: true
  dcbx:
    description: Who decides; with C(fw) a switch that speaks DCBX can overrule the host.
    type: str
    choices: [os, fw]
  trust:
    description: What gives a packet its priority, the VLAN tag or the DSCP of its IP header.
    type: str
    choices: [pcp, dscp]
  dscp2prio:
    description: Priorities by DSCP, such as 26 to 3. DSCPs that are not named stay as they are.
    type: dict
  pfc:
    description: All priorities that have priority flow control.
    type: list
    elements: int
  cable_len:
    description: Length of the cable in metres, from which the NIC computes its thresholds.
    type: int
  prio_tc:
    description: Traffic class of each of the eight priorities.
    type: list
    elements: int
  tsa:
    description: Algorithm of each of the eight traffic classes, C(strict), C(ets) or C(vendor).
    type: list
    elements: str
  tc_bw:
    description: Percent of each of the eight traffic classes; those of ets classes total 100. Needs I(tsa).
    type: list
    elements: int
  prio2buffer:
    description: Receive buffer of each of the eight priorities.
    type: list
    elements: int
  buffer_size:
    description: Size in bytes of each of the eight receive buffers.
    type: list
    elements: int
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: RoCE v2 without loss on priority 3
  kvlab.lab.mlnx_qos:
    interface: ens3np0
    dcbx: os
    trust: dscp
    pfc: [3]
"""

RETURN = r"""
qos:
  description:
    - What the port has after the run, in check mode before it. Has C(dcbx), C(trust), C(dscp2prio), C(cable_len),
      C(pfc), C(tsa), C(tc_bw), C(prio_tc), C(prio2buffer) and C(buffer_size).
  type: dict
  returned: always
commands:
  description: The calls that were, or in check mode would be, made to change something.
  type: list
  elements: str
  returned: always
problems:
  description: The sentences that the module warns with.
  type: list
  elements: str
  returned: always
"""

import json
import shlex

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import qos_state

LISTS = {
    "pfc": "int",
    "prio_tc": "int",
    "tsa": "str",
    "tc_bw": "int",
    "prio2buffer": "int",
    "buffer_size": "int",
}


def call(module, command, *words):
    """One call of mlnx_qos for the interface; its output, which names errors on standard output too."""
    status, out, complaint = module.run_command([command, "-i", module.params["interface"], *words])
    if status:
        said = " ".join(
            (complaint.strip().splitlines() or out.strip().splitlines() or ["no word why"])[-1].split()
        )
        raise qos_state.QosError(
            f"mlnx_qos -i {module.params['interface']} {shlex.join(words)} ended: {said}"
        )
    return out


def read(module, command):
    """The port's state, and whether lldpad runs, of which mlnx_qos warns."""
    out = call(module, command, "-a")
    return qos_state.parse(out), "lldpad service is running" in out


def wishes(given):
    """The settings that are given, with whole numbers for the words that YAML makes of a mapping's keys."""
    want = {name: given[name] for name in ("dcbx", "trust", "dscp2prio", "cable_len", *LISTS)}
    if want["dscp2prio"] is not None:
        try:
            want["dscp2prio"] = {int(dscp): int(prio) for dscp, prio in want["dscp2prio"].items()}
        except (TypeError, ValueError):
            raise qos_state.QosError(
                f"dscp2prio is {want['dscp2prio']}; give whole numbers, such as 26: 3"
            ) from None
    return want


def shown(state, names):
    """Some of a state's settings as lines, for the diff."""
    return "".join(f"{name}: {json.dumps(state[name])}\n" for name in names)


def main():
    module = AnsibleModule(
        argument_spec={
            "interface": {"type": "str", "required": True},
            "dcbx": {"type": "str", "choices": ["os", "fw"]},
            "trust": {"type": "str", "choices": ["pcp", "dscp"]},
            "dscp2prio": {"type": "dict"},
            "cable_len": {"type": "int"},
            **{name: {"type": "list", "elements": kind} for name, kind in LISTS.items()},
        },
        supports_check_mode=True,
    )
    interface = module.params["interface"]
    command = module.get_bin_path("mlnx_qos")
    if command is None:
        module.fail_json(msg="mlnx_qos is not on this host; install mlnx-tools, which DOCA-OFED brings")
    made = []
    try:
        want = wishes(module.params)
        qos_state.check(want)
        before, lldpad = read(module, command)
        off = qos_state.differing(before, want)
        after = before
        if module.check_mode:
            made = qos_state.calls(before, want)
        elif off:
            # One at a time: trust dscp shows the mapping, and PFC can move the buffers.
            while calls := qos_state.calls(after, want):
                if calls[0] in made:
                    left = ", ".join(f"{n} {after[n]}" for n in qos_state.differing(after, want))
                    raise qos_state.QosError(f"the NIC took the settings but has {left} now")
                made.append(calls[0])
                call(module, command, *calls[0])
                after, lldpad = read(module, command)
    except qos_state.QosError as error:
        module.fail_json(msg=f"{interface}: {error}")
    problems = []
    if lldpad:
        problems.append(f"lldpad runs and can overrule the settings of {interface}; stop and disable it")
    if (want["dcbx"] or before["dcbx"]) == "fw" and any(want[name] for name in want if name != "dcbx"):
        problems.append(
            f"firmware has DCBX on {interface}, so a switch can overrule the host; set dcbx to os"
        )
    for problem in problems:
        module.warn(problem)
    target = {**before, **{n: v for n, v in want.items() if v is not None}} if module.check_mode else after
    diff = {"before": shown(before, off), "after": shown(target, off)}
    commands = [shlex.join(["mlnx_qos", "-i", interface, *words]) for words in made]
    module.exit_json(changed=bool(off), diff=diff, qos=after, commands=commands, problems=problems)


if __name__ == "__main__":
    main()
