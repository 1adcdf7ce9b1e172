#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what gdscheck says about this host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gdscheck_facts
short_description: Read and judge gdscheck -p
version_added: "0.1.0"
description:
  - Read-only. A host without gdscheck has nothing to judge; it is no failure, and no proof either.
options:
  environment:
    description: Variables for gdscheck, such as CUFILE_ENV_PATH_JSON.
    type: dict
    default: {}
  kind:
    description: The C(rdma_peer_type) that is used.
    type: str
    choices: [dmabuf, nvidia_peermem]
    required: true
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Read gdscheck
  kvlab.lab.gdscheck_facts:
    environment: {CUFILE_ENV_PATH_JSON: /etc/kvlab/gpudirect/cufile.json}
    kind: dmabuf
  register: __gpudirect_gdscheck
"""

RETURN = r"""
installed:
  description: Whether gdscheck is there.
  type: bool
  returned: always
found:
  description: C(versions), C(support), C(rdma) and C(settings), each a text by name; null without gdscheck.
  type: dict
  returned: always
problems:
  description: The sentences that the module warns with.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import gdscheck

FOLDERS = ["/usr/local/cuda/gds/tools", "/usr/local/cuda-13.1/gds/tools"]


def main():
    module = AnsibleModule(
        argument_spec={
            "environment": {"type": "dict", "default": {}},
            "kind": {"type": "str", "choices": ["dmabuf", "nvidia_peermem"], "required": True},
        },
        supports_check_mode=True,
    )
    command = module.get_bin_path("gdscheck", opt_dirs=FOLDERS) or module.get_bin_path(
        "gdscheck.py", opt_dirs=FOLDERS
    )
    if command is None:
        module.exit_json(changed=False, installed=False, found=None, problems=[])
    status, out, complaint = module.run_command(
        [command, "-p"], environ_update={"LC_ALL": "C", **module.params["environment"]}
    )
    if status:
        said = " ".join((complaint or out).split()) or "no word why"
        module.fail_json(msg=f"gdscheck -p ended with {status}: {said}; look at the driver first")
    found = gdscheck.parse(out)
    problems = list(gdscheck.problems(found, module.params["kind"]))
    for problem in problems:
        module.warn(problem)
    module.exit_json(changed=False, installed=True, found=found, problems=problems)


if __name__ == "__main__":
    main()
