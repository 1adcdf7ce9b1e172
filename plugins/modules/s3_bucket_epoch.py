#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: which cache epoch the KV in a bucket belongs to."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: s3_bucket_epoch
short_description: Record the cache epoch of a bucket, and refuse a bucket of another one
version_added: "0.1.0"
description:
  - LMCache's keys carry no model revision. Other weights or settings on a filled bucket would be served old KV as if
    it were valid; a bucket that holds KV of another or an unknown epoch is therefore refused.
  - The epoch stands in one small object of the bucket, C(.kvlab/epoch.json). LMCache's keys hold no slash, so it is
    never read or overwritten as KV.
options:
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  epoch:
    description: The epoch that is to be served, from the filter P(kvlab.lab.kv_profile_epoch#filter).
    type: str
    required: true
extends_documentation_fragment: [kvlab.lab.s3]
"""

EXAMPLES = r"""
- name: Refuse old KV
  kvlab.lab.s3_bucket_epoch:
    endpoint: http://192.0.2.10:9020
    access_key: kvlab
    secret_key: "{{ objectscale_secret_key }}"
    bucket: kv-prod
    epoch: "{{ profile | kvlab.lab.kv_profile_epoch }}"
"""

RETURN = r"""
found:
  description: The epoch that was recorded before; null for none.
  type: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import s3 as access


def result(found, wanted, changed):
    diff = {"before": {"epoch": found}, "after": {"epoch": wanted}}
    return {"changed": changed, "found": found, "diff": diff}


def main():
    module = AnsibleModule(
        argument_spec={
            **access.ACCESS_SPEC,
            "bucket": {"type": "str", "required": True},
            "epoch": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    bucket, wanted = module.params["bucket"], module.params["epoch"]
    with access.store(module, f"bucket {bucket}", result(None, wanted, True)) as client:
        from kvlab.kvcache import epoch
        from kvlab.objectscale import s3

        if module.check_mode and not s3.bucket_exists(client, bucket):
            found, changed = None, True
        else:
            found, holds_kv = s3.epoch_of(client, bucket)
            changed = epoch.to_record(bucket, found, holds_kv, wanted)
        if changed and not module.check_mode:
            s3.record_epoch(client, bucket, wanted)
    module.exit_json(**result(found, wanted, changed))


if __name__ == "__main__":
    main()
