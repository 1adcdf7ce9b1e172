#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: a short name for the weights in a model directory."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_revision
short_description: Tell the weights in a model directory from other weights
version_added: "0.1.0"
description:
  - Hashes C(config.json), the tokenizer, and name, size and samples spread over every file of weights.
  - Samples suffice to tell checkpoints apart, for training changes tensors throughout; whole files of a large model
    would take minutes. A change of a few bytes by hand may go unseen.
options:
  path:
    description: Hugging Face model directory.
    type: path
    required: true
requirements:
  - The kvlab Python package for the interpreter that runs the module.
attributes:
  check_mode:
    description: Reads only.
    support: full
  diff_mode:
    description: Nothing changes.
    support: none
author:
  - kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at the weights
  kvlab.lab.model_revision:
    path: /srv/models/qwen3-coder-30b-a3b
  register: __weights
"""

RETURN = r"""
revision:
  description: 64 hexadecimal digits.
  type: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True
    )
    try:
        from kvlab.errors import KvlabError
        from kvlab.kvcache import weights
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    try:
        revision = weights.revision(module.params["path"])
    except KvlabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, revision=revision)


if __name__ == "__main__":
    main()
