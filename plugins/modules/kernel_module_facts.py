#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: kernel modules as loaded and as on disk, and against which symbols they were compiled."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kernel_module_facts
short_description: Compare loaded kernel modules with those on disk
version_added: "0.1.0"
description:
  - Read-only. Says for each module whether it is loaded, where its file is, and whether the loaded one is another than
    the file, which only a reload or a reboot changes.
  - Says with which CRC a module was compiled against a symbol of another one, and which CRC that other one exports now.
    Where they differ the module does not load (Invalid argument), as nvidia-peermem does after a change of DOCA-OFED.
options:
  modules:
    description: Names of the modules.
    type: list
    elements: str
    required: true
  symbols:
    description: Symbols whose CRC is reported for each module.
    type: list
    elements: str
    default: []
  symvers:
    description: A Module.symvers that says what is exported now; it may be missing.
    type: path
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at what nvidia-peermem was compiled against
  kvlab.lab.kernel_module_facts:
    modules: [nvidia, nvidia-peermem, ib_core]
    symbols: [ib_register_peer_memory_client]
    symvers: /usr/src/ofa_kernel/default/Module.symvers
  register: __nvidia_driver_modules
"""

RETURN = r"""
modules:
  description:
    - By name as given, each with C(loaded), which is null or has C(version), C(srcversion) and C(holders), and C(disk),
      which is null or has C(filename), C(version), C(srcversion), C(license), C(depends) and C(vermagic).
    - C(stale) says whether the loaded one is another than the file, C(symbols) has the CRC of each symbol asked for,
      null where it has none.
  type: dict
  returned: always
exports:
  description: CRC by symbol of O(symvers), for the symbols asked for; null where it has none.
  type: dict
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import kernel_modules


def on_disk(module, modinfo, name):
    """What modinfo says about the file, None when there is none."""
    status, out, _complaint = module.run_command([modinfo, name], environ_update={"LC_ALL": "C"})
    found = kernel_modules.parse_modinfo(out) if status == 0 else None
    # A module that is built in has no file.
    return found if found and (found["filename"] or "").startswith("/") else None


def compiled_against(module, modprobe, path):
    """CRC by symbol of a module's file."""
    status, out, complaint = module.run_command(
        [modprobe, "--dump-modversions", path], environ_update={"LC_ALL": "C"}
    )
    if status:
        module.fail_json(msg=f"modprobe cannot read the symbol versions of {path}: {complaint.strip()}")
    return kernel_modules.parse_modversions(out)


def main():
    module = AnsibleModule(
        argument_spec={
            "modules": {"type": "list", "elements": "str", "required": True},
            "symbols": {"type": "list", "elements": "str", "default": []},
            "symvers": {"type": "path"},
            "sysfs_root": {"type": "path", "default": "/sys"},
        },
        supports_check_mode=True,
    )
    given = module.params
    modinfo, modprobe = (module.get_bin_path(name, required=True) for name in ("modinfo", "modprobe"))
    found = {}
    for name in given["modules"]:
        running, disk = kernel_modules.loaded(given["sysfs_root"], name), on_disk(module, modinfo, name)
        crcs = compiled_against(module, modprobe, disk["filename"]) if disk and given["symbols"] else {}
        found[name] = {
            "loaded": running,
            "disk": disk,
            "stale": kernel_modules.is_stale(running, disk),
            "symbols": {symbol: crcs.get(symbol) for symbol in given["symbols"]},
        }
    exported = {}
    if given["symvers"] and Path(given["symvers"]).is_file():
        exported = kernel_modules.parse_symvers(Path(given["symvers"]).read_text())
    exports = {symbol: exported.get(symbol) for symbol in given["symbols"]}
    module.exit_json(changed=False, modules=found, exports=exports)


if __name__ == "__main__":
    main()
