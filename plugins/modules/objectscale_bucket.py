#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a bucket of ObjectScale, through the management API."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: objectscale_bucket
short_description: A bucket on ObjectScale, through the management API
version_added: "0.1.0"
description:
  - Makes, changes or removes a bucket. An option that is not given is left as it is. What is fixed at creation and
    differs is named, and nothing is changed; a bucket is never removed and made anew.
options:
  name:
    description: Name of the bucket, unique in its namespace.
    type: str
    required: true
  namespace:
    description: Its namespace.
    type: str
    required: true
  state:
    description: Wanted state. A bucket that holds objects is removed only with I(empty).
    type: str
    choices: [present, absent]
    default: present
  empty:
    description:
      - With C(state=absent), delete all objects of the bucket with it. The array does so in a task of its own, which is
        followed to its end, with a line of progress every few seconds.
    type: bool
    default: false
  empty_timeout:
    description: Seconds to wait for that task; the array goes on after that, and a rerun waits again.
    type: int
    default: 3600
  replication_group:
    description: Replication group by name or URN; the namespace's default when not given. Fixed at creation.
    type: str
  owner:
    description: Owner, an object user of the namespace. A bucket made without one belongs to the management user.
    type: str
  head_type:
    description: Protocol that it serves. Fixed at creation.
    type: str
    choices: [s3, swift, atmos, cas]
  filesystem:
    description: Whether it is a file system as well. Fixed at creation.
    type: bool
  encryption:
    description: Whether its objects are encrypted at rest. Fixed at creation.
    type: bool
  quota_gb:
    description: Size in GB at which writing is refused; -1 for none.
    type: int
  quota_notify_gb:
    description: Size in GB at which the array raises an event; -1 for none.
    type: int
  retention:
    description: Seconds for which an object cannot be deleted or overwritten; 0 for none, as a cache needs it.
    type: int
  autocommit_period:
    description: Seconds after which a written object comes under retention.
    type: int
  available_in_outage:
    description: Whether objects stay readable while a site is away, possibly stale.
    type: bool
  read_only_in_outage:
    description: Whether they are then only readable.
    type: bool
  versioning:
    description: Whether overwritten objects are kept as versions; a cache would keep what nobody reads.
    type: str
    choices: [enabled, suspended]
  locked:
    description: Whether the bucket is locked against all access.
    type: bool
  tags:
    description: All its tags, by name; an empty mapping removes them. Not given, they stay as they are.
    type: dict
extends_documentation_fragment: [kvlab.lab.objectscale]
"""

EXAMPLES = r"""
# Address, user and session come from module_defaults, as in the example of objectscale_session.
- name: Have the bucket of a profile
  kvlab.lab.objectscale_bucket:
    name: kv-s3-rdma
    namespace: kvlab
    owner: kvlab
    replication_group: rg1
    quota_gb: 2000
    quota_notify_gb: 1800
    retention: 0
    encryption: true

- name: Remove it with all KV
  kvlab.lab.objectscale_bucket:
    name: kv-s3-rdma
    namespace: kvlab
    state: absent
    empty: true
"""

RETURN = r"""
name:
  description: Name of the bucket.
  type: str
  returned: success
emptying:
  description: Whether the array had to empty the bucket behind the request.
  type: bool
  returned: success
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import objectscale

SETTINGS = {
    "replication_group": {"type": "str"},
    "owner": {"type": "str"},
    "head_type": {"type": "str", "choices": ["s3", "swift", "atmos", "cas"]},
    "filesystem": {"type": "bool"},
    "encryption": {"type": "bool"},
    "quota_gb": {"type": "int"},
    "quota_notify_gb": {"type": "int"},
    "retention": {"type": "int"},
    "autocommit_period": {"type": "int"},
    "available_in_outage": {"type": "bool"},
    "read_only_in_outage": {"type": "bool"},
    "versioning": {"type": "str", "choices": ["enabled", "suspended"]},
}


def wanted_bucket(api, wanted):
    from kvlab.objectscale import topology
    from kvlab.objectscale.buckets import Bucket

    settings = objectscale.given(wanted, SETTINGS)
    if "replication_group" in settings:
        settings["replication_group"] = topology.group_urn(api, settings["replication_group"])
    return Bucket(
        wanted["name"], wanted["namespace"], settings, objectscale.texts(wanted["tags"]), wanted["locked"]
    )


def main():
    module = AnsibleModule(
        argument_spec={
            **objectscale.ACCESS_SPEC,
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "required": True},
            "state": objectscale.STATE_SPEC,
            "empty": {"type": "bool", "default": False},
            "empty_timeout": {"type": "int", "default": 3600},
            **SETTINGS,
            "locked": {"type": "bool"},
            "tags": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    with objectscale.management(module) as api:
        from kvlab.objectscale import buckets, removal
        from kvlab.objectscale.plan import converge

        emptying = False
        if wanted["state"] == "present":
            bucket = wanted_bucket(api, wanted)
            find = partial(buckets.find, api, bucket)
            plan = converge(api, find, partial(buckets.plan, bucket), check=module.check_mode)
        else:
            bucket = buckets.Bucket(wanted["name"], wanted["namespace"])
            plan, emptying = removal.remove(api, bucket, empty=wanted["empty"], check=module.check_mode)
    module.exit_json(**objectscale.result(plan, name=wanted["name"], emptying=emptying))


if __name__ == "__main__":
    main()
