# SPDX-License-Identifier: Apache-2.0
"""Ansible callback: at the end of a run, the hosts that did not get to it, each with what stopped it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: lost_hosts
type: aggregate
short_description: Names at the end of a run the hosts that did not get there
version_added: "0.1.0"
description:
  - A host that fails goes no further while the others do; what stopped it may stand thousands of lines above the recap.
  - After the recap, one line a host says at which task it was lost and why. Without a lost host nothing is printed.
requirements:
  - Listed under C(callbacks_enabled) in ansible.cfg, as in this project's.
author:
  - kvlab contributors (!UNKNOWN)
"""

from typing import Any

from ansible.plugins.callback import CallbackBase

LONGEST = 600


def sentence(result: dict[str, Any]) -> str:
    """Why a task failed, on one line: its message, else what its command wrote, else where to look."""
    if result.get("censored"):
        return "the reason holds a secret and is not shown"
    items = [item for item in result.get("results") or [] if item.get("failed") or item.get("unreachable")]
    if items:
        return sentence(items[0])
    said = [result.get("msg"), result.get("stderr") or result.get("module_stderr") or result.get("stdout")]
    text = ": ".join(" ".join(str(words).split()).rstrip(".:") for words in said if words) or "see above"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class CallbackModule(CallbackBase):
    """Remembers the last failure of each host that nothing rescued."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kvlab.lab.lost_hosts"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.last: dict[str, str] = {}

    def remember(self, result: Any, how: str) -> None:
        """Keep what happened to a host; a failure that a rescue handles is followed by others or by none."""
        name = result.task.get_name()
        self.last[result.host.get_name()] = f"{how} at '{name}': {sentence(result.result)}"

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self.remember(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self.remember(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        lost = sorted({*stats.failures, *stats.dark})
        if not lost:
            return
        self._display.banner("HOSTS THAT WERE LOST ON THE WAY")
        for host in lost:
            self._display.display(f"{host}: {self.last.get(host, 'see above')}", color="red")
        went = len(set(stats.processed) - set(lost))
        self._display.display(f"{went} of {len(stats.processed)} hosts went to the end.")
