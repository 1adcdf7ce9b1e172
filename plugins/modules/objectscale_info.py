#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what an ObjectScale array is."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_info
short_description: Release, nodes, data addresses, replication groups and licence of an ObjectScale array
version_added: "0.1.0"
description:
  - Asks the array and changes nothing. A release that the modules do not know, or an invalid licence, is an error.
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Ask the array
  kvlab.lab.objectscale_info:
  register: array

- name: Name one S3 endpoint for each data address
  ansible.builtin.debug:
    msg: "{{ array.data_addresses | map('regex_replace', '^(.*)$', 'http://\\1:9020') }}"
"""

RETURN = r"""
version:
  description: Release of the first node.
  type: str
  returned: success
vdc:
  description: Name of the local virtual data center.
  type: str
  returned: success
nodes:
  description: The nodes, each with C(name), C(version), C(status) and C(data_addresses).
  type: list
  elements: dict
  returned: success
data_addresses:
  description: Addresses where S3 listens, of all nodes.
  type: list
  elements: str
  returned: success
replication_groups:
  description: URN of each replication group, by name.
  type: dict
  returned: success
licence:
  description: Licensed features as the array lists them; null where the release has no such call.
  type: list
  elements: dict
  returned: success
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale


def main():
    module = AnsibleModule(argument_spec=objectscale.ACCESS_SPEC, supports_check_mode=True)
    with objectscale.management(module) as api:
        from kvlab.objectscale import topology

        nodes = topology.nodes(api)
        groups = topology.replication_groups(api)
        api.remember_groups(groups)
        found = {
            "version": nodes[0].version,
            "vdc": topology.vdc_name(api),
            "nodes": [asdict(node) for node in nodes],
            "data_addresses": [address for node in nodes for address in node.data_addresses],
            "replication_groups": groups,
            "licence": topology.licence(api),
        }
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
