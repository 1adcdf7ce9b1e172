#!/usr/bin/env python3
"""Stand-in for `dmesg`: the simulated kernel's log, dmesg.txt in the state folder; a node may not read the real one."""

from __future__ import annotations

from standin import folder, log_call

log_call()
log = folder() / "dmesg.txt"
print(log.read_text() if log.exists() else "", end="")
