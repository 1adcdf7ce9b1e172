#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: whether NICs reach GPU memory by dma-buf or by nvidia-peermem, with the evidence."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: peer_memory_facts
short_description: Tell from evidence how NICs reach GPU memory
version_added: "0.1.0"
description:
  - Read-only. Looks at the driver that the kernel runs (open or closed modules), the loaded nvidia_peermem and its
    registration, the kernel's configuration and symbols.
  - Where sysfs is the real one it also asks each RDMA device for dma-buf, by a registration that cannot succeed, and
    CUDA for its attribute DMA_BUF_SUPPORTED.
  - What cannot be seen is null and proves nothing.
options:
  wanted:
    description: The kind to use; V(auto) takes dma-buf where it is there, else nvidia-peermem.
    type: str
    choices: [auto, dmabuf, nvidia_peermem]
    default: auto
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
  proc_root:
    description: Where proc is.
    type: path
    default: /proc
  boot_root:
    description: Where the kernel's configuration file is.
    type: path
    default: /boot
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at peer memory
  kvlab.lab.peer_memory_facts:
  register: __gpudirect_peer
"""

RETURN = r"""
kind:
  description: dmabuf or nvidia_peermem, the words of rdma_peer_type in cuobj.json; null where neither is usable.
  type: str
  returned: always
problem:
  description: The sentence why there is none; else null.
  type: str
  returned: always
judged:
  description: Each kind with C(usable) and the sentences C(for) and C(against) it.
  type: dict
  returned: always
evidence:
  description: What was seen. It has no word on time, so that a record of it changes only with the host.
  type: dict
  returned: always
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import dma_buf, peer_memory


def main():
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "str", "choices": ["auto", "dmabuf", "nvidia_peermem"], "default": "auto"},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
            "boot_root": {"type": "path", "default": "/boot"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        found = peer_memory.evidence(
            given["sysfs_root"], given["proc_root"], given["boot_root"], platform.release()
        )
    except OSError as error:
        module.fail_json(msg=f"the evidence on peer memory cannot be read: {error}; run this as root")
    # A made-up sysfs has no device that could be asked.
    real = given["sysfs_root"] == "/sys"
    asked = dma_buf.cuda() if real else None
    found["cuda"] = asked["dma_buf"] if asked and asked["code"] == 0 else None
    found["verbs"] = dma_buf.verbs() if real else None
    judged = peer_memory.judge(found)
    kind, problem = None, None
    try:
        kind = peer_memory.choose(judged, given["wanted"])
    except peer_memory.PeerMemoryError as error:
        problem = str(error)
    module.exit_json(changed=False, kind=kind, problem=problem, judged=judged, evidence=found)


if __name__ == "__main__":
    main()
