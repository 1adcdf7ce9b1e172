#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the health of a host's GPUs and PCIe links. It collects and decides nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: burn_in_facts
short_description: Collect the health of GPUs and PCIe links
version_added: "0.1.0"
description:
  - Reads ECC and row-remap state from nvidia-smi, Xids from the kernel log, link width and speed from sysfs.
  - With O(dcgm_level) it runs DCGM's diagnostic, which loads the GPUs for minutes; never in check mode.
  - A tool that the host does not have is named in RV(facts); the judgement is made by C(kvlab.checks.burn_in).
options:
  dcgm_level:
    description: Level of C(dcgmi diag), 1 to 4; 0 leaves it out.
    type: int
    choices: [0, 1, 2, 3, 4]
    default: 0
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the GPUs
  kvlab.lab.burn_in_facts:
    dcgm_level: 2
  register: __burn_in_facts
"""

RETURN = r"""
facts:
  description: The facts; the judge's input, see C(kvlab.checks.burn_in).
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import gpu_health, pci_sysfs


def query(module, option, fields):
    """Rows of an nvidia-smi query; None when the command is missing or fails."""
    path = module.get_bin_path("nvidia-smi")
    if path is None:
        return None
    command = [path, f"{option}={','.join(fields)}", "--format=csv,noheader,nounits"]
    status, out, _complaint = module.run_command(command, environ_update={"LC_ALL": "C"})
    return gpu_health.parse_csv(out, fields) if status == 0 else None


def ecc(module):
    rows = query(module, "--query-gpu", gpu_health.ECC_FIELDS)
    if rows is None:
        return None
    bus, count = gpu_health.ECC_FIELDS
    return [{"gpu": row[bus], "uncorrected": gpu_health.number(row[count])} for row in rows]


def rows_remapped(module):
    rows = query(module, "--query-remapped-rows", gpu_health.ROW_FIELDS)
    if rows is None:
        return None
    bus, count, pending, failure = gpu_health.ROW_FIELDS
    return [
        {
            "gpu": row[bus],
            "uncorrectable": gpu_health.number(row[count]),
            "pending": gpu_health.yes(row[pending]),
            "failure": gpu_health.yes(row[failure]),
        }
        for row in rows
    ]


def kernel_log(module):
    """Xids in the kernel's log; None when it is not for us."""
    path = module.get_bin_path("dmesg")
    status, out, _complaint = module.run_command([path]) if path else (1, "", "")
    return gpu_health.xids(out) if status == 0 else None


def dcgm(module):
    """Tests of DCGM's diagnostic; None when it was not asked for or is not installed."""
    path = module.get_bin_path("dcgmi")
    if not module.params["dcgm_level"] or path is None or module.check_mode:
        return None
    # Its status is not 0 when a test fails; the document says which.
    _status, out, complaint = module.run_command([path, "diag", "-r", str(module.params["dcgm_level"]), "-j"])
    return gpu_health.parse_dcgm(out or complaint)


def main():
    module = AnsibleModule(
        argument_spec={
            "dcgm_level": {"type": "int", "default": 0, "choices": [0, 1, 2, 3, 4]},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    devices = pci_sysfs.devices(module.params["sysfs_root"])
    try:
        facts = {
            "gpus": [one["address"] for one in devices["gpus"]],
            "links": [
                {"kind": kind, "address": one["address"], **one["link"]}
                for kind, group in (("gpu", "gpus"), ("nic", "nics"))
                for one in devices[group]
            ],
            "ecc": ecc(module) if devices["gpus"] else [],
            "rows": rows_remapped(module) if devices["gpus"] else [],
            "xids": kernel_log(module),
            "dcgm": dcgm(module) if devices["gpus"] else None,
            "perftest_installed": module.get_bin_path("ib_write_bw") is not None,
            "dcgm_installed": module.get_bin_path("dcgmi") is not None,
        }
    except gpu_health.HealthError as error:
        module.fail_json(msg=f"{error}; run it by hand on the host")
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
