#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: whether S3 works at an address, and whether S3 over RDMA is offered there."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: s3_smoke
short_description: Try S3 at one address of a store, and ask whether it offers S3 over RDMA
version_added: "0.1.0"
description:
  - Writes, looks at, reads, lists and deletes an object, with checksums as the lab's clients send them (must work) and
    as SDKs send them by default (ObjectScale refuses them over TLS; told, no failure).
  - With I(rdma), asks by a PUT with a token that is none whether S3 over RDMA is offered, under both names of the
    header. C(ready) says that the store looks at tokens, C(declined) that it knows the header and has RDMA switched
    off, C(not offered) that it ignores the header, C(unclear) anything else. No answer says anything about the fabric.
  - The objects have throw-away keys and are deleted in any case. In check mode nothing is tried.
options:
  bucket:
    description: Bucket for the throw-away objects.
    type: str
    required: true
  rdma:
    description: Whether to ask about S3 over RDMA.
    type: bool
    default: false
extends_documentation_fragment: [kvlab.lab.s3]
"""

EXAMPLES = r"""
- name: Try a data node
  kvlab.lab.s3_smoke:
    endpoint: http://192.0.2.10:9020
    access_key: kvlab
    secret_key: "{{ objectscale_secret_key }}"
    bucket: kvlab-roundtrip
    rdma: true
"""

RETURN = r"""
checksums:
  description: For each checksum mode whether it works, and if not, the step where it ended and what was seen there.
  type: list
  elements: dict
  returned: when not in check mode
rdma:
  description: The best result of all headers; one of ready, declined, unclear, not offered.
  type: str
  returned: with I(rdma), when not in check mode
rdma_headers:
  description: For each header the result and what was seen.
  type: list
  elements: dict
  returned: with I(rdma), when not in check mode
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import s3 as access


def main():
    module = AnsibleModule(
        argument_spec={
            **access.ACCESS_SPEC,
            "bucket": {"type": "str", "required": True},
            "rdma": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    found = {"changed": False}
    if module.check_mode:
        module.exit_json(**found)
    with access.store(module, f"bucket {wanted['bucket']}") as client:
        from kvlab.objectscale import rdma_readiness, smoke

        outcomes = smoke.test(lambda mode: access.client(wanted, checksums=mode), wanted["bucket"])
        found["checksums"] = [outcome.as_json() for outcome in outcomes]
        if wanted["rdma"] and outcomes[0].works:
            headers = rdma_readiness.probe(client, wanted["bucket"])
            found["rdma"] = rdma_readiness.overall(headers)
            found["rdma_headers"] = [header.as_json() for header in headers]
    failed = outcomes[0]
    if not failed.works:
        where = f"S3 at {wanted['endpoint']} does not work as the lab needs it: {failed.step} of an object in bucket"
        module.fail_json(msg=f"{where} {wanted['bucket']} ended with: {failed.seen}", **found)
    module.exit_json(**found)


if __name__ == "__main__":
    main()
