#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the modules that DKMS knows, and their states."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: dkms_facts
short_description: Collect the states of DKMS modules
version_added: "0.1.0"
description:
  - Read-only. A host without dkms has no modules.
options:
  kernel:
    description: Only this kernel release; entries that are not built for any kernel are reported always.
    type: str
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Ask DKMS
  kvlab.lab.dkms_facts:
    kernel: "{{ ansible_facts['kernel'] }}"
  register: __doca_ofed_dkms
"""

RETURN = r"""
modules:
  description:
    - Each with C(module), C(version), C(kernel), C(arch), C(state), which is added, built or installed, and C(note).
  type: list
  elements: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import dkms_status


def main():
    module = AnsibleModule(argument_spec={"kernel": {"type": "str"}}, supports_check_mode=True)
    path = module.get_bin_path("dkms")
    if path is None:
        module.exit_json(changed=False, modules=[])
    status, out, complaint = module.run_command([path, "status"], environ_update={"LC_ALL": "C"})
    if status:
        module.fail_json(
            msg=f"dkms status ended with {status}: {' '.join(complaint.split()) or 'no word why'}"
        )
    try:
        modules = dkms_status.parse(out)
    except dkms_status.DkmsError as error:
        module.fail_json(msg=str(error))
    kernel = module.params["kernel"]
    modules = [entry for entry in modules if kernel is None or entry["kernel"] in (None, kernel)]
    module.exit_json(changed=False, modules=modules)


if __name__ == "__main__":
    main()
