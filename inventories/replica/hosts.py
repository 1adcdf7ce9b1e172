#!/usr/bin/env python3
"""The nodes of the replica, as playbooks/replica.yml made them: an Ansible inventory script."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATE = Path(__file__).resolve().parents[2] / ".lab/replica/replica.json"


def inventory(replica: dict[str, Any]) -> dict[str, Any]:
    """Groups and host variables, in the form that Ansible asks of a script with --list."""
    hosts = {
        node["name"]: {
            "ansible_host": node["address"],
            "kvlab_address": node["address"],
            "kvlab_rail_addresses": node["rails"],
        }
        for node in replica["nodes"]
    }
    groups: dict[str, Any] = {}
    for node in replica["nodes"]:
        groups.setdefault(node["group"], {"hosts": []})["hosts"].append(node["name"])
    connection = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": replica["key"],
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={replica['known_hosts']} -o StrictHostKeyChecking=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"_meta": {"hostvars": hosts}, "all": {"children": sorted(groups), "vars": connection}, **groups}


def main() -> int:
    try:
        replica = json.loads(STATE.read_text())
    except FileNotFoundError:
        print("there is no replica; make it with: ansible-playbook playbooks/replica.yml", file=sys.stderr)
        return 2
    print(json.dumps(inventory(replica), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
