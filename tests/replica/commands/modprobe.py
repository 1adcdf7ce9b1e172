#!/usr/bin/env python3
"""Stand-in for `modprobe [-r] MODULE...`, `modprobe --dump-modversions FILE` and `modprobe -n`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import kernel_modules
from standin import end, log_call

words = log_call()
options, names = [w for w in words if w.startswith("-")], [w for w in words if not w.startswith("-")]
unknown = set(options) - {"-r", "-q", "-n", "--dump-modversions", "--first-time"}
if unknown or not names:
    end(1, f"modprobe: this stand-in does not know {' '.join(words)}")
if "--dump-modversions" in options:
    path = kernel_modules.root() / names[0].lstrip("/")
    if not path.exists():
        end(1, f"modprobe: FATAL: Module {names[0]} not found.")
    for symbol, crc in json.loads(Path(path).read_text()).get("modversions", {}).items():
        print(f"{crc}\t{symbol}")
    sys.exit(0)
for name in names:
    if "-r" in options:
        kernel_modules.unload(name)
    elif "-n" in options:
        if kernel_modules.find(name) is None:
            end(
                1,
                f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{kernel_modules.kernel()}",
            )
    elif complaint := kernel_modules.load(name):
        end(1, complaint)
