#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one program under the lab's supervisord."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: supervisor_program
short_description: Start or stop one program under the lab's supervisord
version_added: "0.1.0"
description:
  - Starts supervisord when it does not answer (ending first what a killed one left behind), loads programs whose
    files changed, and brings one program to the wanted state.
  - With I(health_url) it waits until that address answers and prints a progress line every few seconds; when the
    program ends or stays silent it fails with the last lines of the program's log.
options:
  state_dir:
    description: The lab's state folder; C(etc/supervisord.conf) must be in it.
    type: path
    required: true
  name:
    description: Name of the program.
    type: str
    required: true
  state:
    description:
      - Wanted state. C(shutdown) ends supervisord and everything under it.
    type: str
    choices: [started, stopped, shutdown]
    default: started
  health_url:
    description: HTTP address that answers once the program serves; it is waited for.
    type: str
  timeout:
    description: Seconds to wait for I(health_url).
    type: int
    default: 60
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Run the emulated object store
  kvlab.lab.supervisor_program:
    state_dir: /srv/lab/.lab
    name: objectscale
    health_url: http://127.0.0.1:9020/
"""

RETURN = r"""
name:
  description: Name of the program.
  type: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def _bring(supervisor, name, state, check_mode):
    """Bring the program to `state`; returns whether that changed (or would change) anything."""
    if state == "shutdown":
        return supervisor.alive() if check_mode else supervisor.shutdown()
    if check_mode:
        if not supervisor.alive():
            return state == "started"
        added, changed, removed = supervisor.pending_changes()
        loaded = {p.name: p.state for p in supervisor.programs()}
        runs = loaded.get(name) in ("RUNNING", "STARTING")
        return name in [*added, *changed, *removed] or runs != (state == "started")
    changed = False
    if state == "started" or supervisor.alive():
        changed = supervisor.start() | bool(supervisor.load())
        act = supervisor.start_program if state == "started" else supervisor.stop_program
        changed |= act(name)
    return changed


def main():
    module = AnsibleModule(
        argument_spec={
            "state_dir": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["started", "stopped", "shutdown"],
                "default": "started",
            },
            "health_url": {"type": "str"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        from kvlab.errors import KvlabError
        from kvlab.serving.supervisor import Supervisor
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )

    wanted = module.params
    supervisor = Supervisor(Path(wanted["state_dir"]))
    try:
        changed = _bring(supervisor, wanted["name"], wanted["state"], module.check_mode)
    except KvlabError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, name=wanted["name"])


if __name__ == "__main__":
    main()
