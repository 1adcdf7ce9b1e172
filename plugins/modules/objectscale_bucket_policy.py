#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the policy of a bucket of ObjectScale."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_bucket_policy
short_description: The policy of a bucket on ObjectScale
version_added: "0.1.0"
description:
  - Puts a policy in place or removes it. Policies are compared by meaning, so that one value and a list of it, or
    another order of a list, is no change.
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  policy:
    description: The policy, in AWS's form. Needed with C(state=present).
    type: dict
  state:
    description: Whether the bucket has a policy.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Let a second user read the bucket
  kvlab.lab.objectscale_bucket_policy:
    bucket: kv-s3-rdma
    namespace: kvlab
    policy:
      Version: "2012-10-17"
      Statement:
        - Effect: Allow
          Principal: [reader]
          Action: ["s3:GetObject", "s3:ListBucket"]
          Resource: [kv-s3-rdma, "kv-s3-rdma/*"]
"""

RETURN = r"""
bucket:
  description: Name of the bucket.
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
            "bucket": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "policy": {"type": "dict"},
            "state": objectscale.STATE_SPEC,
        },
        required_if=[("state", "present", ["policy"])],
        supports_check_mode=True,
    )
    wanted = module.params
    policy = wanted["policy"] if wanted["state"] == "present" else None
    with objectscale.management(module) as api:
        from kvlab.objectscale import bucket_policies
        from kvlab.objectscale.buckets import Bucket
        from kvlab.objectscale.plan import converge

        bucket = Bucket(wanted["bucket"], wanted["namespace"])
        find = partial(bucket_policies.find, api, bucket)
        plan = converge(api, find, partial(bucket_policies.plan, bucket, policy), check=module.check_mode)
    module.exit_json(**objectscale.result(plan, bucket=wanted["bucket"]))


if __name__ == "__main__":
    main()
