#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one login to the management API for a whole play."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_session
short_description: Log in to ObjectScale's management API once for a play, and out again
version_added: "0.1.0"
description:
  - An array allows a user 100 tokens at once. With C(state=present) at the start of a play and C(state=absent) in its
    C(always), all tasks between share one, which stands in I(session_file) (0600).
  - A file that a killed run left behind is taken up again if it is for the same array and user and young enough;
    otherwise its token is given back first.
  - A release that the modules do not know is refused here, before anything changes.
  - Neither login nor logout counts as a change, and both are done in check mode too.
options:
  state:
    description: Whether to have a login. C(absent) gives back this one token, never the user's others.
    type: str
    choices: [present, absent]
    default: present
  session_file:
    description: File (0600) that keeps the login between the tasks; its folder is made when it is missing.
    type: path
    required: true
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
- name: Configure the array
  delegate_to: localhost
  run_once: true
  module_defaults:
    group/kvlab.lab.objectscale:
      host: 192.0.2.20
      username: kvlab-admin
      password: "{{ vault_objectscale_password }}"
      ca_path: /etc/kvlab/objectscale-ca.pem
      session_file: /run/kvlab/objectscale.session
  block:
    - name: Log in
      kvlab.lab.objectscale_session:
    - name: Have the namespace
      kvlab.lab.objectscale_namespace:
        name: kvlab
        replication_group: rg1
  always:
    - name: Log out
      kvlab.lab.objectscale_session:
        state: absent
"""

RETURN = r"""
version:
  description: Release of the array, with C(state=present); null when this user may not list the nodes.
  type: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale


def version_of(module, api):
    """The array's release, by a call that also shows that the token is good."""
    from kvlab.objectscale import topology
    from kvlab.objectscale.errors import ForbiddenError

    try:
        return topology.nodes(api)[0].version
    except ForbiddenError as error:
        module.warn(f"the array's release is not known: {error}")
        return None


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "session_file": {"type": "path", "required": True},
            "state": objectscale.STATE_SPEC,
        },
        supports_check_mode=True,
    )
    with objectscale.management(module) as api:
        if module.params["state"] == "present":
            version = version_of(module, api)
        else:
            version = None
            api.logout()
    module.exit_json(changed=False, version=version)


if __name__ == "__main__":
    main()
