#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: an object user of ObjectScale."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_object_user
short_description: An object user on ObjectScale, whose name is its S3 access key
version_added: "0.1.0"
description:
  - Makes, changes or removes an object user. Names are unique over all namespaces of the array; one that another
    namespace has is refused. Its keys are the business of M(kvlab.lab.objectscale_secret_key).
options:
  name:
    description: Name of the user.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  state:
    description: Wanted state. Removing a user removes its keys; the buckets it owns stay.
    type: str
    choices: [present, absent]
    default: present
  tags:
    description: All its tags, by name; an empty mapping removes them. Not given, they stay as they are.
    type: dict
  locked:
    description: Whether it is locked out of S3. Not given, it stays as it is.
    type: bool
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Have the user of the KV cache
  kvlab.lab.objectscale_object_user:
    name: kvlab
    namespace: kvlab
"""

RETURN = r"""
name:
  description: Name of the user.
  type: str
  returned: success
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "state": objectscale.STATE_SPEC,
            "tags": {"type": "dict"},
            "locked": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    with objectscale.management(module) as api:
        from kvlab.objectscale import users
        from kvlab.objectscale.plan import converge

        user = users.ObjectUser(
            wanted["name"], wanted["namespace"], objectscale.texts(wanted["tags"]), wanted["locked"]
        )
        act = users.plan if wanted["state"] == "present" else users.removal
        plan = converge(api, partial(users.find, api, user), partial(act, user), check=module.check_mode)
    module.exit_json(**objectscale.result(plan, name=wanted["name"]))


if __name__ == "__main__":
    main()
