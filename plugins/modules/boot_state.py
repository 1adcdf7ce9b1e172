#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what waits for a reboot of this host, and what the last one brought."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: boot_state
short_description: Ask for a reboot, and see why one is due
version_added: "0.1.0"
description:
  - A role that needs a reboot leaves a request here with its reason; the role C(reboot) looks once, for all of them.
  - Requests lie below C(/run), which a reboot empties. So a request is gone exactly when it was met, however the reboot
    came about.
  - Two more reasons are found without being asked for, a newer kernel than the running one and the distribution's own
    mark (C(/run/reboot-required)).
options:
  requester:
    description: Who asks; needed with O(reason). One request each, a later one takes the place of an earlier.
    type: str
  reason:
    description: Why, in one sentence. Without it nothing is asked for, and the state is read.
    type: str
  requests_dir:
    description: Folder of the requests.
    type: path
    default: /run/kvlab/reboot-required
  distribution_mark:
    description: File that the distribution's packages leave; empty to overlook it.
    type: path
    default: /run/reboot-required
  boot_dir:
    description: Folder with the installed kernels.
    type: path
    default: /boot
  proc_root:
    description: Where proc is.
    type: path
    default: /proc
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Ask for a reboot
  kvlab.lab.boot_state:
    requester: nvidia_driver
    reason: Driver 590.44.01 is loaded and 590.48.01 is installed.
"""

RETURN = r"""
boot_id:
  description: The kernel's name of this boot.
  type: str
  returned: always
kernel:
  description: Release of the running kernel.
  type: str
  returned: always
newest_kernel:
  description: Release of the newest installed kernel; null where none is found, such as in a container.
  type: str
  returned: always
modules:
  description: Names of the loaded kernel modules.
  type: list
  elements: str
  returned: always
reasons:
  description: Why a reboot is due, a sentence each; empty when none is.
  type: list
  elements: str
  returned: always
"""

import os
import re
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils.boot_kernel import (
    loaded_modules,
    newest_kernel,
    version_key,
)

NAME = re.compile(r"[A-Za-z0-9_-]+")


def requests(folder):
    """Reason by requester."""
    if not folder.is_dir():
        return {}
    return {
        path.name: path.read_text("utf-8").strip() for path in sorted(folder.iterdir()) if path.name[0] != "."
    }


def ask(folder, requester, reason):
    """Leave the request, so that nobody sees half of one."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=str(folder), prefix=".")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(reason + "\n")
    Path(aside).chmod(0o644)
    Path(aside).rename(folder / requester)


def main():
    module = AnsibleModule(
        argument_spec={
            "requester": {"type": "str"},
            "reason": {"type": "str"},
            "requests_dir": {"type": "path", "default": "/run/kvlab/reboot-required"},
            "distribution_mark": {"type": "path", "default": "/run/reboot-required"},
            "boot_dir": {"type": "path", "default": "/boot"},
            "proc_root": {"type": "path", "default": "/proc"},
        },
        required_together=[("requester", "reason")],
        supports_check_mode=True,
    )
    given = module.params
    folder, proc = Path(given["requests_dir"]), Path(given["proc_root"])
    asked = requests(folder)
    changed = False
    if given["reason"] is not None:
        reason = " ".join(given["reason"].split())
        if not NAME.fullmatch(given["requester"]) or not reason:
            module.fail_json(
                msg="requester is a role's name of letters, digits, _ and -, and reason a sentence."
            )
        changed = asked.get(given["requester"]) != reason
        if changed and not module.check_mode:
            ask(folder, given["requester"], reason)
        asked[given["requester"]] = reason

    kernel, newest = os.uname().release, newest_kernel(given["boot_dir"])
    reasons = [f"{requester}: {reason}" for requester, reason in sorted(asked.items())]
    if newest is not None and version_key(newest) > version_key(kernel):
        reasons.append(f"Kernel {newest} is installed and {kernel} runs; modules are built for the newest.")
    elif given["distribution_mark"] and Path(given["distribution_mark"]).exists():
        reasons.append(f"A package of the distribution asks for it ({given['distribution_mark']}).")
    module.exit_json(
        changed=changed,
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip(),
        kernel=kernel,
        newest_kernel=newest,
        modules=loaded_modules(proc),
        reasons=reasons,
    )


if __name__ == "__main__":
    main()
