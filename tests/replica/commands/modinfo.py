#!/usr/bin/env python3
"""Stand-in for `modinfo [-F FIELD] MODULE`."""

from __future__ import annotations

import json

import kernel_modules
from standin import end, log_call

words = log_call()
field = words[words.index("-F") + 1] if "-F" in words else None
name = words[-1]
path = kernel_modules.find(name)
if path is None:
    end(1, f"modinfo: ERROR: Module {name} not found.")
about = json.loads(path.read_text())
fields = {
    "filename": kernel_modules.shown(path),
    "version": about.get("version", ""),
    "srcversion": about.get("srcversion", ""),
    "license": about.get("license", ""),
    "depends": ",".join(about.get("depends", [])),
    "vermagic": f"{kernel_modules.kernel()} SMP preempt mod_unload modversions ",
}
if field:
    if fields.get(field):
        print(fields[field])
else:
    for key, value in fields.items():
        if value or key == "depends":
            print(f"{key + ':':<16}{value}")
