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
  bucket:
    description: Name of the bucket.
    type: str
    required: true
  epoch:
    description: The epoch that is to be served, from the filter P(kvlab.lab.kv_profile_epoch#filter).
    type: str
    required: true
requirements:
  - The kvlab Python package for the interpreter that runs the module.
attributes:
  check_mode:
    description: Writes nothing. A bucket that is not there yet counts as one to be recorded.
    support: full
  diff_mode:
    description: Shows the epoch.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
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


def main():
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "required": True},
            "access_key": {"type": "str", "required": True, "no_log": False},
            "secret_key": {"type": "str", "required": True, "no_log": True},
            "bucket": {"type": "str", "required": True},
            "epoch": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        from botocore.exceptions import BotoCoreError, ClientError

        from kvlab.errors import KvlabError
        from kvlab.kvcache import epoch
        from kvlab.objectscale import s3
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    bucket = wanted["bucket"]
    try:
        client = s3.client(wanted["endpoint"], wanted["access_key"], wanted["secret_key"])
        if module.check_mode and not s3.bucket_exists(client, bucket):
            found, changed = None, True
        else:
            found, holds_kv = s3.epoch_of(client, bucket)
            changed = epoch.to_record(bucket, found, holds_kv, wanted["epoch"])
        if changed and not module.check_mode:
            s3.record_epoch(client, bucket, wanted["epoch"])
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"bucket {bucket}: {s3.explain(error, wanted['endpoint'])}")
    except KvlabError as error:
        module.fail_json(msg=str(error))
    diff = {"before": {"epoch": found}, "after": {"epoch": wanted["epoch"]}}
    module.exit_json(changed=changed, found=found, diff=diff)


if __name__ == "__main__":
    main()
