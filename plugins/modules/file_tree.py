#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: folders and small text files of one folder, in one run."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: file_tree
short_description: Folders and small text files below one folder, in one run
version_added: "0.1.0"
description:
  - Does what a loop over C(ansible.builtin.file) and C(ansible.builtin.copy) does, in one module run instead of two a
    file. A lab's profiles are two dozen files, and a run that changes nothing should take seconds.
  - Each file is written aside with its mode and renamed into place, so that a reader never sees half of one.
options:
  path:
    description: The folder; made when it is missing.
    type: path
    required: true
  mode:
    description: Mode of the folder itself; when not given, a new one gets 0755 and one that is there keeps its own.
    type: str
  directories:
    description: Folders below it, by relative path, each with its mode such as "0755".
    type: dict
    default: {}
  files:
    description: Files below it, by relative path; each has C(content) and C(mode). Use C(no_log) where one is secret.
    type: dict
    default: {}
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Write a profile
  kvlab.lab.file_tree:
    path: /etc/kvlab/profiles/s3-rdma
    files:
      env: {content: "PYTHONHASHSEED=0\n", mode: "0644"}
"""

RETURN = r"""
changed_paths:
  description: Relative paths that were made, rewritten or got another mode.
  type: list
  elements: str
  returned: always
"""

import os
import stat
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def mode_of(path):
    """Permission bits of a path, or None when it is not there."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def ensure_directory(path, mode, check_mode):
    """Make the folder or correct its mode; returns whether that was needed."""
    have = mode_of(path)
    if have is not None and (mode is None or have == mode):
        return False
    if not check_mode:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755 if mode is None else mode)
    return True


def ensure_file(path, content, mode, check_mode):
    """Write the file or correct its mode; returns the text before, and whether that was needed."""
    before = path.read_text() if path.is_file() else None
    if before == content:
        changed = mode_of(path) != mode
        if changed and not check_mode:
            path.chmod(mode)
        return before, changed
    if not check_mode:
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w") as out:
            os.fchmod(handle, mode)
            out.write(content)
        Path(aside).replace(path)
    return before, True


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "mode": {"type": "str"},
            "directories": {"type": "dict", "default": {}},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    root = Path(wanted["path"])
    changed, diff = [], []
    try:
        if ensure_directory(root, int(wanted["mode"], 8) if wanted["mode"] else None, module.check_mode):
            changed.append(".")
        for name, mode in wanted["directories"].items():
            if ensure_directory(root / name, int(mode, 8), module.check_mode):
                changed.append(name)
        for name, file in wanted["files"].items():
            mode = int(file["mode"], 8)
            before, differs = ensure_file(root / name, file["content"], mode, module.check_mode)
            if differs:
                changed.append(name)
                headers = {"before_header": str(root / name), "after_header": str(root / name)}
                diff.append({"before": before or "", "after": file["content"], **headers})
    except (OSError, ValueError, KeyError) as error:
        module.fail_json(msg=f"{root} cannot be written: {error}")
    module.exit_json(changed=bool(changed), changed_paths=changed, diff=diff)


if __name__ == "__main__":
    main()
