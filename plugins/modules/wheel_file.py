#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one file of an installed package, taken from another published wheel."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: wheel_file
short_description: Replace one installed file by the one of another published wheel
version_added: "0.1.0"
description:
  - Downloads one wheel by exact version and sha256, without its requirements, and takes one file out of it.
  - The installed file is replaced only if it is the expected original; anything else but the wanted file is refused.
  - The package's C(RECORD) keeps the hash of the original, so that C(pip) still knows what it installed.
options:
  path:
    description: The installed file.
    type: path
    required: true
  file:
    description: The file's path in the wheel.
    type: str
    required: true
  distribution:
    description: Name of the package that the wheel belongs to.
    type: str
    required: true
  version:
    description: Its exact version.
    type: str
    required: true
  wheel_sha256:
    description: Hash of the wheel, in hexadecimal.
    type: str
    required: true
  original_sha256:
    description: Hash of the installed file that may be replaced.
    type: str
    required: true
  sha256:
    description: Hash of the wanted file.
    type: str
    required: true
  python:
    description: Interpreter whose pip downloads; the wheel is the one for it.
    type: path
    required: true
  find_links:
    description: Folder or page with wheels to use besides the default index.
    type: str
    default: ""
  index:
    description: Whether the default index is asked as well.
    type: bool
    default: true
attributes:
  check_mode:
    description: Compares the installed file and downloads nothing.
    support: full
  diff_mode:
    description: Shows the hashes.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Take the corrected storage manager of LMCache 0.5.4
  kvlab.lab.wheel_file:
    path: /opt/kvlab/venv/lib/python3.12/site-packages/lmcache/v1/storage_backend/storage_manager.py
    file: lmcache/v1/storage_backend/storage_manager.py
    distribution: lmcache
    version: 0.5.4
    wheel_sha256: d4fccafe6a0c90ffac96e3b67fd6dbe5a3a6ff8dbbe8139612a873c26971861b
    original_sha256: 04469f03b70315d4291fc75ff3bdfc10b4dafd09d1a519c4823c1150f0d79034
    sha256: 52d933c7c588f29f7915ae83b76ff90d023acd2872ba146f89eb3d50bd8a4d7b
    python: /opt/kvlab/venv/bin/python
"""

RETURN = r"""
sha256:
  description: Hash of the installed file after the task; in check mode the one that it would have.
  type: str
  returned: success
"""

import hashlib
import shutil
import zipfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


class RefusedError(Exception):
    """One sentence for the user."""


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def installed(wanted):
    """Hash of the installed file, which must be the original or the wanted one."""
    try:
        found = _sha256(Path(wanted["path"]).read_bytes())
    except OSError as error:
        raise RefusedError(
            f"{wanted['path']} cannot be read ({error.strerror}); install its package first."
        ) from None
    if found not in (wanted["original_sha256"], wanted["sha256"]):
        raise RefusedError(
            f"{wanted['path']} is neither the original that may be replaced nor the wanted file (sha256 {found}, "
            f"expected {wanted['original_sha256']}); it was changed or belongs to another version. Remove the "
            "environment and run again."
        )
    return found


def download(module, folder):
    """The wheel, which pip itself has checked against the hash."""
    wanted = module.params
    requirement = f"{wanted['distribution']}=={wanted['version']}"
    requirements = folder / "wanted.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{wanted['wheel_sha256']}\n")
    command = [
        wanted["python"],
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(folder)]
    if wanted["find_links"]:
        command += ["--find-links", wanted["find_links"]]
    if not wanted["index"]:
        command.append("--no-index")
    status, _, complaint = module.run_command([*command, "-r", str(requirements)])
    wheels = list(folder.glob("*.whl"))
    if status or len(wheels) != 1:
        raise RefusedError(
            f"the wheel of {requirement} with sha256 {wanted['wheel_sha256']} cannot be had: "
            f"{complaint.strip() or 'pip gave no wheel'}"
        )
    return wheels[0]


def take(wheel, wanted):
    """The wanted file's content."""
    with zipfile.ZipFile(wheel) as archive:
        try:
            content = archive.read(wanted["file"])
        except KeyError:
            raise RefusedError(
                f"{wheel.name} holds no file {wanted['file']}; correct the stack file."
            ) from None
    if _sha256(content) != wanted["sha256"]:
        raise RefusedError(
            f"{wanted['file']} in {wheel.name} has sha256 {_sha256(content)}, expected {wanted['sha256']}; correct the "
            "stack file."
        )
    return content


def replace(module, content):
    """Put the content in place, atomically and with the permissions of what it replaces."""
    scratch = Path(module.tmpdir, Path(module.params["path"]).name)
    scratch.write_bytes(content)
    shutil.copymode(module.params["path"], scratch)
    module.atomic_move(str(scratch), module.params["path"])


def main():
    names = ("file", "distribution", "version", "wheel_sha256", "original_sha256", "sha256")
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "str", "required": True} for name in names},
            "path": {"type": "path", "required": True},
            "python": {"type": "path", "required": True},
            "find_links": {"type": "str", "default": ""},
            "index": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        before = installed(wanted)
        changed = before != wanted["sha256"]
        if changed and not module.check_mode:
            folder = Path(module.tmpdir, "wheel")
            folder.mkdir()
            replace(module, take(download(module, folder), wanted))
    except RefusedError as refusal:
        module.fail_json(msg=str(refusal))
    diff = {"before": {"sha256": before}, "after": {"sha256": wanted["sha256"]}}
    module.exit_json(changed=changed, sha256=wanted["sha256"], diff=diff)


if __name__ == "__main__":
    main()
