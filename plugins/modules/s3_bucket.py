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
  endpoint:
    description: Address of the store, such as C(http://192.0.2.10:9020).
    type: str
    required: true
  access_key:
    description: Access key; on ObjectScale the name of the object user.
    type: str
    required: true
  secret_key:
    description: Secret key.
    type: str
    required: true
  name:
    description: Name of the bucket.
    type: str
    required: true
  state:
    description: Wanted state. A bucket that holds objects is never removed.
    type: str
    choices: [present, absent]
    default: present
author: kvlab contributors (!UNKNOWN)
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


def main():
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "required": True},
            "access_key": {"type": "str", "required": True, "no_log": False},
            "secret_key": {"type": "str", "required": True, "no_log": True},
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        from botocore.exceptions import BotoCoreError, ClientError

        from kvlab.objectscale import s3
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    client = s3.client(wanted["endpoint"], wanted["access_key"], wanted["secret_key"])
    present = wanted["state"] == "present"
    try:
        changed = s3.bucket_exists(client, wanted["name"]) != present
        if changed and not module.check_mode:
            act = client.create_bucket if present else client.delete_bucket
            act(Bucket=wanted["name"])
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"bucket {wanted['name']}: {s3.explain(error, wanted['endpoint'])}")
    before, after = ("absent", "present") if present else ("present", "absent")
    diff = {"before": {"state": before if changed else after}, "after": {"state": after}}
    module.exit_json(changed=changed, bucket=wanted["name"], diff=diff)


if __name__ == "__main__":
    main()
