#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the bridges that the nodes of a replica hang on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: replica_network
short_description: Bridges of a replica's own, on this machine
version_added: "0.1.0"
description:
  - Makes bridges, each with one address at most, or removes them.
  - Nothing is routed or forwarded for them. What hangs on them reaches this machine and each other, and nothing else.
  - A network that this machine already has a route to is refused.
options:
  bridges:
    description: Bridges, each with C(name), C(address) (with prefix length; may be empty) and C(mtu).
    type: list
    elements: dict
    required: true
  state:
    description: Whether the bridges are there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Looks at the links and changes none.
    support: full
  diff_mode:
    description: Shows which bridges there are.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Make the management network of a replica
  kvlab.lab.replica_network:
    bridges:
      - {name: kv0f3a2cm, address: 10.77.0.1/24, mtu: 1500}
"""

RETURN = r"""
bridges:
  description: Names of the bridges that are there after the task.
  type: list
  elements: str
  returned: always
"""

import ipaddress
import json

from ansible.module_utils.basic import AnsibleModule


def ip(module, *words):
    """Run ip(8); a complaint of it ends the module."""
    status, out, complaint = module.run_command(["ip", *words])
    if status:
        module.fail_json(msg=f"ip {' '.join(words)}: {complaint.strip()}; run this as root on Linux.")
    return out


def look(module):
    """What each bridge of this machine has: {name: {"address", "mtu", "up"}}."""
    found = {}
    for link in json.loads(ip(module, "-json", "-details", "addr", "show", "type", "bridge") or "[]"):
        # ip prints an empty entry for every link that the filter leaves out.
        if "ifname" in link:
            inet = [f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"] if a["family"] == "inet"]
            found[link["ifname"]] = {
                "address": inet[0] if inet else "",
                "mtu": link["mtu"],
                "up": "UP" in link["flags"],
            }
    return found


def refuse_taken(module, bridges):
    """Fail where a network that is wanted is on another link already."""
    own = {bridge["name"] for bridge in bridges}
    routes = [
        r for r in json.loads(ip(module, "-json", "-4", "route", "show") or "[]") if r["dst"] != "default"
    ]
    for bridge in bridges:
        if not bridge["address"]:
            continue
        wanted = ipaddress.ip_interface(bridge["address"]).network
        for route in routes:
            if route.get("dev") not in own and wanted.overlaps(ipaddress.ip_network(route["dst"])):
                module.fail_json(
                    msg=f"the network {wanted} of the replica is taken: this machine reaches {route['dst']} by "
                    f"{route.get('dev')}; give the replica another one by replica_network."
                )


def bring(module, bridge, has):
    """Make or mend one bridge."""
    name = bridge["name"]
    if not has:
        ip(module, "link", "add", name, "type", "bridge")
    elif has["address"] and has["address"] != bridge["address"]:
        ip(module, "addr", "del", has["address"], "dev", name)
    if bridge["address"] and (not has or has["address"] != bridge["address"]):
        ip(module, "addr", "add", bridge["address"], "dev", name)
    ip(module, "link", "set", name, "mtu", str(bridge["mtu"]), "up")


def main():
    module = AnsibleModule(
        argument_spec={
            "bridges": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    bridges, there = module.params["bridges"], look(module)
    names = [bridge["name"] for bridge in bridges]
    before = {name: there.get(name) for name in names}
    if module.params["state"] == "absent":
        after = dict.fromkeys(names)
        for name in names:
            if before[name] and not module.check_mode:
                ip(module, "link", "del", name)
    else:
        after = {b["name"]: {"address": b["address"], "mtu": int(b["mtu"]), "up": True} for b in bridges}
        refuse_taken(module, bridges)
        for bridge in bridges:
            if before[bridge["name"]] != after[bridge["name"]] and not module.check_mode:
                bring(module, bridge, before[bridge["name"]])
    module.exit_json(
        changed=before != after,
        bridges=[name for name, has in after.items() if has],
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()
