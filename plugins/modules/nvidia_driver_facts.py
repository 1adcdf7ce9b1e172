#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: NVIDIA's devices on the PCI bus, and the driver that the kernel runs."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvidia_driver_facts
short_description: Collect NVIDIA devices and the loaded driver
version_added: "0.1.0"
description:
  - Read-only, and needs no driver; a GPU is known by its PCI vendor and class, an NVSwitch as well.
options:
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
  proc_root:
    description: Where procfs is.
    type: path
    default: /proc
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look for GPUs
  kvlab.lab.nvidia_driver_facts:
  register: __nvidia_driver_found
"""

RETURN = r"""
gpus:
  description: PCI addresses of GPUs.
  type: list
  elements: str
  returned: always
nvswitches:
  description: PCI addresses of NVSwitches.
  type: list
  elements: str
  returned: always
loaded_version:
  description: Version of the driver in the kernel; null when none is loaded.
  type: str
  returned: always
nouveau:
  description: Whether the kernel has loaded nouveau.
  type: bool
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import nvidia_driver


def main():
    module = AnsibleModule(
        argument_spec={
            "sysfs_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    sysfs, proc = module.params["sysfs_root"], module.params["proc_root"]
    try:
        module.exit_json(
            changed=False,
            loaded_version=nvidia_driver.loaded_version(proc),
            nouveau=nvidia_driver.is_loaded(proc, "nouveau"),
            **nvidia_driver.devices(sysfs),
        )
    except OSError as error:
        module.fail_json(
            msg=f"the devices cannot be read: {error}; set sysfs_root and proc_root to where they are"
        )


if __name__ == "__main__":
    main()
