#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: an IAM user of ObjectScale."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_iam_user
short_description: An IAM user on ObjectScale with inline policies and an access key
version_added: "0.1.0"
description:
  - Makes, changes or removes an IAM user. Unlike an object user it can be allowed single actions on single buckets.
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
    description: Wanted state. Removing a user removes its inline policies and access keys.
    type: str
    choices: [present, absent]
    default: present
  policies:
    description: All its inline policies, by name; an empty mapping removes them. Not given, they stay as they are.
    type: dict
  access_key_file:
    description:
      - File (0600) on the controller for the access key, JSON with C(access_key) and C(secret_key). The array shows the
        secret only once, when it makes the key; a key is made when the file holds none of this user.
    type: path
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Have a user that may only read the cache
  kvlab.lab.objectscale_iam_user:
    name: reader
    namespace: kvlab
    access_key_file: /etc/kvlab/secrets/reader.json
    policies:
      read:
        Version: "2012-10-17"
        Statement:
          - Effect: Allow
            Action: ["s3:GetObject", "s3:ListBucket"]
            Resource: ["arn:aws:s3:::kv-s3-rdma", "arn:aws:s3:::kv-s3-rdma/*"]
"""

RETURN = r"""
name:
  description: Name of the user.
  type: str
  returned: success
"""

import json
from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale


def keep_access_key(module, api, user):
    """Make an access key and keep it, if the file holds none of the user's; returns whether that was needed."""
    from kvlab.errors import KvlabError
    from kvlab.objectscale import iam_users, private_file

    path = module.params["access_key_file"]
    content = private_file.read(path)
    try:
        kept = None if content is None else json.loads(content)
    except ValueError:
        raise KvlabError(f"{path} is not JSON; remove it, or name another access_key_file") from None
    needed = iam_users.needs_key(user, kept, iam_users.access_keys(api, user))
    if needed and not module.check_mode:
        # The secret is shown only once: a path that cannot be written must be found out before.
        private_file.write(path, content or "{}")
        private_file.write(path, json.dumps(iam_users.new_access_key(api, user)))
    return needed


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "state": objectscale.STATE_SPEC,
            "policies": {"type": "dict"},
            "access_key_file": {"type": "path", "no_log": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    present = wanted["state"] == "present"
    with objectscale.management(module) as api:
        from kvlab.objectscale import iam_users
        from kvlab.objectscale.plan import converge

        user = iam_users.IamUser(wanted["name"], wanted["namespace"], wanted["policies"] if present else {})
        act = iam_users.plan if present else iam_users.removal
        plan = converge(api, partial(iam_users.find, api, user), partial(act, user), check=module.check_mode)
        made = present and wanted["access_key_file"] and keep_access_key(module, api, user)
    result = objectscale.result(plan, name=wanted["name"])
    module.exit_json(**result | {"changed": bool(plan.changed or made)})


if __name__ == "__main__":
    main()
