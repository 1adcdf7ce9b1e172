#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: after how many days cache objects of a bucket expire."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: s3_lifecycle
short_description: Let cache objects of a bucket expire after some days
version_added: "0.1.0"
description:
  - Keeps one lifecycle rule for each prefix, named C(kvlab-expire-<prefix>). Other rules of the bucket stay.
  - ObjectScale's lifecycle knows expiration only, and none for buckets that are file systems.
  - A server that runs longer than I(days) goes on taking what has expired for stored; restart it more often than that.
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  days:
    description: Days after which an object expires. Needed with C(state=present).
    type: int
  prefixes:
    description:
      - How the keys begin that expire. In process that is the model's name with C(_) for C(/); in MP mode C(obj_).
      - An empty prefix is refused, for it would let the record of the cache epoch expire before the KV it speaks for.
    type: list
    elements: str
    default: []
  state:
    description: Whether anything expires. C(absent) removes this module's rules alone.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment: [kvlab.lab.s3]
"""

EXAMPLES = r"""
- name: Let KV expire after two weeks
  kvlab.lab.s3_lifecycle:
    endpoint: http://192.0.2.10:9020
    access_key: kvlab
    secret_key: "{{ objectscale_secret_key }}"
    bucket: kv-prod
    days: 14
    prefixes: [Qwen_Qwen3-Coder-30B-A3B-Instruct]
"""

RETURN = r"""
rules:
  description: All rules of the bucket after the task; in check mode those that it would have.
  type: list
  elements: dict
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import s3 as access


def result(before, after):
    diff = {"before": {"rules": before}, "after": {"rules": after}}
    return {"changed": before != after, "rules": after, "diff": diff}


def main():
    module = AnsibleModule(
        argument_spec={
            **access.ACCESS_SPEC,
            "bucket": {"type": "str", "required": True},
            "days": {"type": "int"},
            "prefixes": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["days", "prefixes"])],
        supports_check_mode=True,
    )
    wanted = module.params
    bucket, days = wanted["bucket"], wanted["days"] if wanted["state"] == "present" else None
    with access.store(module, f"bucket {bucket}", {"changed": days is not None}) as client:
        from kvlab.objectscale import lifecycle, s3

        rules = lifecycle.wanted_rules(days, wanted["prefixes"])
        absent = module.check_mode and not s3.bucket_exists(client, bucket)
        before = [] if absent else lifecycle.rules(client, bucket)
        after = lifecycle.merged(before, rules)
        if before != after and not module.check_mode:
            lifecycle.replace(client, bucket, after)
    module.exit_json(**result(before, after))


if __name__ == "__main__":
    main()
