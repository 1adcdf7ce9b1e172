# Copyright: kvlab contributors
# SPDX-License-Identifier: Apache-2.0
"""Lints KV-cache configuration files on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kv_config_lint
short_description: Find what is wrong with KV-cache configuration files
version_added: "0.1.0"
description:
  - Reads lmcache.yaml, cufile.json and a profile's argument lists and reports findings by stable id.
  - Changes nothing. Fails when there is an error, unless told not to, with all findings of all files at once.
options:
  paths:
    description: Files to lint.
    type: list
    elements: path
    required: true
  lmcache:
    description: Version of LMCache, or the folder that holds its package.
    type: str
    required: true
  nixl:
    description: Version of NIXL.
    type: str
    required: true
  vllm:
    description: Version of vLLM.
    type: str
  profile:
    description: What the files are for.
    type: str
    choices: [baseline, s3-http, s3-rdma, file]
  model:
    description: Path of the model's config.json, or the name of a preset, for what depends on sizes.
    type: str
  tp:
    description: Tensor-parallel ranks.
    type: int
    default: 1
  max_tokens:
    description: Longest request; needs O(model).
    type: int
  env_files:
    description: Environment files of the serving process.
    type: list
    elements: path
    default: []
  addresses:
    description: Addresses of this host, to judge C(rdma_dev_addr_list).
    type: list
    elements: str
    default: []
  fail_on_error:
    description: Whether an error fails the task.
    type: bool
    default: true
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
- name: Lint the s3-rdma profile
  kvlab.lab.kv_config_lint:
    paths:
      - /etc/kvlab/profiles/s3-rdma/lmcache.yaml
      - /etc/kvlab/profiles/s3-rdma/cufile.json
    lmcache: 0.5.3
    nixl: 1.5.1
    vllm: 0.25.1
    profile: s3-rdma
    env_files: [/etc/kvlab/profiles/s3-rdma/env]
    addresses: "{{ ansible_facts.all_ipv4_addresses }}"
"""

RETURN = r"""
findings:
  description: Findings, errors first within each file.
  returned: always
  type: list
  elements: dict
  sample:
    - {file: lmcache.yaml, id: LMC014, severity: error, key: extra_config.nixl_pool_size, line: 0,
       reason: nixl_pool_size is missing., remedy: Write nixl_pool_size 0.}
errors:
  description: How many of them are errors.
  returned: always
  type: int
"""

from ansible.module_utils.basic import AnsibleModule


def main():
    """Read the files, lint them, report."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "lmcache": {"type": "str", "required": True},
            "nixl": {"type": "str", "required": True},
            "vllm": {"type": "str"},
            "profile": {"type": "str", "choices": ["baseline", "s3-http", "s3-rdma", "file"]},
            "model": {"type": "str"},
            "tp": {"type": "int", "default": 1},
            "max_tokens": {"type": "int", "no_log": False},
            "env_files": {"type": "list", "elements": "path", "default": []},
            "addresses": {"type": "list", "elements": "str", "default": []},
            "fail_on_error": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        from kvlab.errors import KvlabError
        from kvlab.kvcache import files, lint
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable for this interpreter ({error}); run ./lab, which installs it"
        )
    options = dict(module.params)
    paths, fatal = options.pop("paths"), options.pop("fail_on_error")
    findings = []
    try:
        context = files.context_of(**options)
        for path in paths:
            text, mode = files.read_text(path)
            found = lint.lint(text, path, lint.with_mode(context, mode))
            findings.extend(dict(finding.as_dict(), file=path) for finding in found)
    except KvlabError as error:
        module.fail_json(msg=str(error), findings=findings, errors=0)
    errors = [finding for finding in findings if finding["severity"] == "error"]
    result = {"changed": False, "findings": findings, "errors": len(errors)}
    if errors and fatal:
        lines = ["{file}: {id} {key}: {reason} {remedy}".format(**finding) for finding in errors]
        module.fail_json(msg="; ".join(lines), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
