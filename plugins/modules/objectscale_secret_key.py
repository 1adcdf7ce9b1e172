#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the secret key of an object user of ObjectScale."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_secret_key
short_description: The secret key of an object user on ObjectScale, without ever showing it
version_added: "0.1.0"
description:
  - Gives an object user the key that the caller keeps. What is there is compared by the array's id of a key, which is
    its SHA-256; the key itself is never printed, and read back only from a release that shows no ids.
  - "A key is changed in two steps. First I(rotate) adds the new key beside the old one; both are good. When everything
    that uses the user has the new key, I(expire_old) removes the old one."
  - A user has two keys at most, and nodes of the array may take an old key for up to two minutes more.
options:
  user:
    description: Name of the object user.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  secret_key:
    description: The key, from any Ansible lookup.
    type: str
  secret_file:
    description:
      - File (0600) on the controller that holds the key. It is made with a new random key when it is missing, before
        the array is told, so that a run cut short is finished by the next one.
    type: path
  key_id:
    description: With C(state=absent), the id of the key to remove; for a key that nobody knows any more.
    type: str
  state:
    description: Whether the user is to have the key. C(absent) removes this one key.
    type: str
    choices: [present, absent]
    default: present
  rotate:
    description: Add the key even if the user has another one, which stays.
    type: bool
    default: false
  old_key_expiry_minutes:
    description: With I(rotate), when a key is added, let the array end the other one after so many minutes.
    type: int
  expire_old:
    description: Remove the user's other key; refused as long as the given one is not there.
    type: bool
    default: false
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Give the user the key from the vault
  kvlab.lab.objectscale_secret_key:
    user: kvlab
    namespace: kvlab
    secret_key: "{{ vault_objectscale_secret_key }}"

- name: Add a new key beside the old one
  kvlab.lab.objectscale_secret_key:
    user: kvlab
    namespace: kvlab
    secret_file: /etc/kvlab/secrets/objectscale.next
    rotate: true

- name: Remove the old one, once the services have the new one
  kvlab.lab.objectscale_secret_key:
    user: kvlab
    namespace: kvlab
    secret_file: /etc/kvlab/secrets/objectscale.next
    expire_old: true
"""

RETURN = r"""
key_ids:
  description: Ids (SHA-256) of the user's keys after the task; in check mode those that it would have.
  type: list
  elements: str
  returned: success
"""

from dataclasses import replace
from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale


def wish_of(module, look):
    """The key that the user is to have.

    A missing file is made only after a look has shown that its key would be taken, and never in check mode.
    """
    from kvlab.objectscale import private_file, secret_keys
    from kvlab.objectscale.plan import converge

    wanted = module.params
    kept = wanted["secret_key"] or private_file.read_key(wanted["secret_file"])
    wish = secret_keys.Wish(
        user=wanted["user"],
        namespace=wanted["namespace"],
        secret=kept or private_file.new_key(),
        rotate=wanted["rotate"],
        expire_old=wanted["expire_old"],
        old_key_expiry_minutes=wanted["old_key_expiry_minutes"],
    )
    if kept is None and not module.check_mode:
        converge(None, look, partial(secret_keys.plan, wish), check=True)
        wish = replace(wish, secret=private_file.ensure_key(wanted["secret_file"]))
    module.no_log_values.add(wish.secret)
    return wish


def unwanted_id(module):
    """The id of the key that is to go."""
    from kvlab.objectscale import private_file, secret_keys

    wanted = module.params
    if wanted["key_id"]:
        return wanted["key_id"]
    secret = wanted["secret_key"] or private_file.read_key(wanted["secret_file"])
    if secret is None:
        module.fail_json(msg=f"{wanted['secret_file']} is not there; say by key_id which key is to go")
    return secret_keys.key_id(secret)


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "user": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "secret_key": {"type": "str", "no_log": True},
            "secret_file": {"type": "path", "no_log": False},
            "key_id": {"type": "str", "no_log": False},
            "state": objectscale.STATE_SPEC,
            "rotate": {"type": "bool", "default": False},
            "old_key_expiry_minutes": {"type": "int", "no_log": False},
            "expire_old": {"type": "bool", "default": False},
        },
        required_one_of=[("secret_key", "secret_file", "key_id")],
        mutually_exclusive=[("secret_key", "secret_file", "key_id"), ("rotate", "expire_old")],
        supports_check_mode=True,
    )
    wanted = module.params
    if wanted["state"] == "present" and wanted["key_id"]:
        module.fail_json(msg="key_id names a key to remove; give the key by secret_key or secret_file")
    with objectscale.management(module) as api:
        from kvlab.objectscale import secret_keys
        from kvlab.objectscale.plan import converge

        look = partial(secret_keys.find, api, wanted["user"], wanted["namespace"])
        if wanted["state"] == "present":
            act = partial(secret_keys.plan, wish_of(module, look))
        else:
            act = partial(secret_keys.removal, wanted["user"], wanted["namespace"], unwanted_id(module))
        plan = converge(api, look, act, check=module.check_mode)
    module.exit_json(**objectscale.result(plan, key_ids=plan.after["key_ids"]))


if __name__ == "__main__":
    main()
