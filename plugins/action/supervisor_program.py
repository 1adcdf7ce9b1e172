# SPDX-License-Identifier: Apache-2.0
"""Action behind kvlab.lab.supervisor_program: runs the module, then waits for health and shows progress."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Wait on the controller, so that a person sees what is being waited for.

    supervisor serves labs whose host is the controller; elsewhere systemd runs the programs.
    """

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        wanted = self._task.args
        result = self._execute_module(module_args=wanted, task_vars=task_vars)
        waits = wanted.get("health_url") and wanted.get("state", "started") == "started"
        if result.get("failed") or not waits or self._task.check_mode:
            return result
        # The module has imported the package, or has failed.
        from kvlab.errors import KvlabError
        from kvlab.serving import health
        from kvlab.serving.supervisor import Supervisor

        supervisor = Supervisor(Path(wanted["state_dir"]))
        timeout = float(wanted.get("timeout", 60))
        try:
            health.wait(supervisor, wanted["name"], wanted["health_url"], timeout, self._tell)
        except KvlabError as error:
            result.update(failed=True, msg=str(error))
        return result

    def _tell(self, line):
        self._display.display(f"  {line}")
