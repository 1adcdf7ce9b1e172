#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a bucket, through the S3 API alone."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: s3_bucket
short_description: A bucket on an S3 store, through the S3 API
version_added: "0.1.0"
description:
  - Makes or removes a bucket with the credentials of its user. Path style, no checksum trailers, as ObjectScale needs.
options:
  name:
    description: Name of the bucket.
    type: str
    required: true
  state:
    description: Wanted state. A bucket that holds objects is never removed.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment: [kvlab.lab.s3]
"""

EXAMPLES = r"""
- name: Make the bucket of a profile
  kvlab.lab.s3_bucket:
    endpoint: http://127.0.0.1:9020
    access_key: kvlab
    secret_key: "{{ objectscale_secret_key }}"
    name: kv-s3-rdma
"""

RETURN = r"""
bucket:
  description: Name of the bucket.
  type: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import s3 as access


def result(name, changed, present):
    before = present != changed
    states = {True: "present", False: "absent"}
    return {
        "changed": changed,
        "bucket": name,
        "diff": {"before": {"state": states[before]}, "after": {"state": states[present]}},
    }


def main():
    module = AnsibleModule(
        argument_spec={
            **access.ACCESS_SPEC,
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    name, present = module.params["name"], module.params["state"] == "present"
    with access.store(module, f"bucket {name}", result(name, present, present)) as client:
        from kvlab.objectscale import s3

        changed = s3.bucket_exists(client, name) != present
        if changed and not module.check_mode:
            act = client.create_bucket if present else client.delete_bucket
            act(Bucket=name)
    module.exit_json(**result(name, changed, present))


if __name__ == "__main__":
    main()
