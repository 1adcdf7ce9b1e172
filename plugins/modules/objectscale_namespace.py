#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a namespace of ObjectScale."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_namespace
short_description: A namespace (tenant) on ObjectScale
version_added: "0.1.0"
description:
  - Makes, changes or removes a namespace. An option that is not given is left as it is.
options:
  name:
    description: Name of the namespace.
    type: str
    required: true
  state:
    description: Wanted state. A namespace that holds buckets or users is never removed.
    type: str
    choices: [present, absent]
    default: present
  replication_group:
    description: Default replication group of its buckets, by name or URN.
    type: str
  allowed_replication_groups:
    description: Replication groups that it may use, by name or URN; an empty list allows all.
    type: list
    elements: str
  admins:
    description: Management users that administer it.
    type: list
    elements: str
  encryption:
    description: Whether its data is encrypted at rest.
    type: bool
  available_in_outage:
    description: Whether its data stays readable while a site is away, possibly stale.
    type: bool
  bucket_quota_gb:
    description: Default quota of its new buckets in GB; -1 for none.
    type: int
  compliance:
    description: Whether retention is enforced as compliance rules ask. Fixed at creation.
    type: bool
  quota_gb:
    description: Size in GB at which writing is refused; -1 for none.
    type: int
  quota_notify_gb:
    description: Size in GB at which the array raises an event; -1 for none.
    type: int
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Have the namespace of the KV cache
  kvlab.lab.objectscale_namespace:
    name: kvlab
    replication_group: rg1
    encryption: true
"""

RETURN = r"""
name:
  description: Name of the namespace.
  type: str
  returned: success
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale

SETTINGS = {
    "replication_group": {"type": "str"},
    "allowed_replication_groups": {"type": "list", "elements": "str"},
    "admins": {"type": "list", "elements": "str"},
    "encryption": {"type": "bool"},
    "available_in_outage": {"type": "bool"},
    "bucket_quota_gb": {"type": "int"},
    "compliance": {"type": "bool"},
    "quota_gb": {"type": "int"},
    "quota_notify_gb": {"type": "int"},
}


def settings(api, params):
    """The options that the task sets, as the array would show them."""
    from kvlab.objectscale import topology

    made = objectscale.given(params, SETTINGS)
    if "replication_group" in made:
        made["replication_group"] = topology.group_urn(api, made["replication_group"])
    if "allowed_replication_groups" in made:
        made["allowed_replication_groups"] = sorted(
            topology.group_urn(api, group) for group in made["allowed_replication_groups"]
        )
    if "admins" in made:
        made["admins"] = sorted(made["admins"])
    return made


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "name": {"type": "str", "required": True},
            "state": objectscale.STATE_SPEC,
            **SETTINGS,
        },
        supports_check_mode=True,
    )
    wanted = module.params
    with objectscale.management(module) as api:
        from kvlab.objectscale import namespaces
        from kvlab.objectscale.plan import converge

        present = wanted["state"] == "present"
        namespace = namespaces.Namespace(wanted["name"], settings(api, wanted) if present else {})
        act = namespaces.plan if present else namespaces.removal
        find = partial(namespaces.find, api, namespace)
        plan = converge(api, find, partial(act, namespace), check=module.check_mode)
    module.exit_json(**objectscale.result(plan, name=wanted["name"]))


if __name__ == "__main__":
    main()
