# SPDX-License-Identifier: Apache-2.0
"""Action behind kvlab.lab.supervisor_program: runs the module, then waits for health and shows progress."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase

POLL_S = 2.0
TELL_S = 10.0


class ActionModule(ActionBase):
    """Wait on the controller, so that a person sees what is being waited for."""

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        wanted = dict(self._task.args)
        result = self._execute_module(module_args=wanted, task_vars=task_vars)
        waits = wanted.get("health_url") and wanted.get("state", "started") == "started"
        if result.get("failed") or not waits or self._task.check_mode:
            return result
        timeout = int(wanted.get("timeout", 60))
        begin = told = time.monotonic()
        look, first_pid = result, result.get("pid", 0)
        while not (look.get("healthy") and look["program_state"] == "RUNNING"):
            waited = time.monotonic() - begin
            first_pid = first_pid or look.get("pid", 0)
            problem = self._problem(wanted, look, first_pid, waited, timeout)
            if problem:
                tail = "".join(f"\n    {line}" for line in look.get("last_lines", []))
                result.update(failed=True, msg=f"{problem}; last lines of its log:{tail}")
                return result
            if time.monotonic() - told >= TELL_S:
                told = time.monotonic()
                last = (look.get("last_lines") or [""])[-1]
                self._display.display(
                    f"  {wanted['name']}: {waited:.0f} s of at most {timeout} s | {last[-90:]}"
                )
            time.sleep(POLL_S)
            look = self._execute_module(module_args={**wanted, "state": "look"}, task_vars=task_vars)
            if look.get("failed"):
                return look
        result.update(healthy=True, program_state="RUNNING", pid=look["pid"])
        return result

    @staticmethod
    def _problem(wanted, look, first_pid, waited, timeout):
        """Why waiting is over, or None."""
        name, state, pid = wanted["name"], look["program_state"], look.get("pid", 0)
        if state not in ("RUNNING", "STARTING") or (pid and first_pid and pid != first_pid):
            return f"{name} ended while it was starting ({look.get('description') or state})"
        if waited > timeout:
            return f"{name} runs but {wanted['health_url']} does not answer after {waited:.0f} s"
        return None
