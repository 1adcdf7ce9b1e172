#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one holder of a host at a time, so that two pipelines never use the same hardware at once."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: lab_lock
short_description: Hold or free the lock of a lab's host
version_added: "0.1.0"
description:
  - The lock is a file on the host itself, so that it holds whichever machine a pipeline runs on. It survives a reboot,
    because a bring-up reboots.
  - It is made in one step with its content; of two that come at the same moment one gets it.
options:
  state:
    description:
      - V(held) takes it, and fails with the holder's name where somebody else has it.
      - V(free) removes the holder's own; somebody else's stays, with a warning, unless O(force).
    type: str
    choices: [held, free]
    default: held
  holder:
    description: Who holds it; the same name may take it again. Best the address of the pipeline's run.
    type: str
    required: true
  purpose:
    description: What it is held for, in a few words.
    type: str
    default: ""
  path:
    description: The file.
    type: path
    default: /var/lib/kvlab/lab.lock
  force:
    description: With O(state=free), whether to free it whoever holds it. For a run that died.
    type: bool
    default: false
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Have this host for this run alone
  kvlab.lab.lab_lock:
    holder: https://ci.example.org/kvlab/1234
    purpose: hardware suite
"""

RETURN = r"""
lock:
  description: The lock as it stands now, with C(holder), C(purpose) and C(since); null when it is free.
  type: dict
  returned: always
"""

import datetime
import json
import os
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def read(path):
    """The lock, or None when it is free. A file without a holder is nobody's lock, and no reason to go on either."""
    try:
        lock = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        lock = None
    if not isinstance(lock, dict) or not lock.get("holder"):
        return {"holder": "unknown", "purpose": f"{path} is damaged", "since": "unknown"}
    return lock


def take(path, lock):
    """Make the file with its content in one step; False when somebody was faster."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=str(path.parent), prefix=".lab-lock-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(lock) + "\n")
        Path(aside).chmod(0o644)
        os.link(aside, str(path))
    except FileExistsError:
        return False
    finally:
        Path(aside).unlink()
    return True


def said(lock):
    """Who holds it, since when and what for."""
    purpose = f" ({lock['purpose']})" if lock.get("purpose") else ""
    return f"{lock['holder']} since {lock.get('since', 'unknown')}{purpose}"


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "free"], "default": "held"},
            "holder": {"type": "str", "required": True},
            "purpose": {"type": "str", "default": ""},
            "path": {"type": "path", "default": "/var/lib/kvlab/lab.lock"},
            "force": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    path, holder = Path(module.params["path"]), module.params["holder"]
    if not holder.strip():
        module.fail_json(
            msg="holder is empty; name who holds the lab, such as the address of the pipeline's run."
        )
    now = read(path)
    mine = now is not None and now["holder"] == holder
    if module.params["state"] == "free":
        gone = now is not None and (mine or module.params["force"])
        if gone and not module.check_mode:
            path.unlink()
        if now is not None and not gone:
            module.warn(f"The lock is not freed, for it is not yours: it is held by {said(now)}.")
        module.exit_json(changed=gone, lock=None if gone else now)

    wanted = {
        "holder": holder,
        "purpose": module.params["purpose"],
        "since": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if now is None and (module.check_mode or take(path, wanted)):
        module.exit_json(changed=True, lock=wanted)
    now = now or read(path) or {"holder": "unknown", "purpose": "freed this moment", "since": "unknown"}
    if not mine:
        module.fail_json(
            msg=f"This host is held by {said(now)}. Wait until that run has ended; if it is dead, free the lab with "
            "ansible-playbook playbooks/unlock.yml -e kvlab_lock_force=true and the lab's -i.",
            lock=now,
        )
    module.exit_json(changed=False, lock=now)


if __name__ == "__main__":
    main()
