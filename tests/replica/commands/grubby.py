#!/usr/bin/env python3
"""Stand-in for `grubby` of RHEL 9: --info=ALL, and --update-kernel=ALL with --args= or --remove-args=.

State: grubby/entries.json, a list of {"kernel", "args"}. As in grubby, --args replaces the value of an argument that an
entry has already, and --remove-args with a value removes only that value.
"""

from __future__ import annotations

import json

from standin import end, folder, log_call

words = log_call()
state = folder() / "grubby/entries.json"
if not state.exists():
    end(1, "grubby: error: no boot entries")
entries = json.loads(state.read_text())
if words == ["--info=ALL"]:
    for index, entry in enumerate(entries):
        print(
            f'index={index}\nkernel="{entry["kernel"]}"\nargs="{entry["args"]}"\nroot="/dev/mapper/rl-root"'
        )
elif words[:1] == ["--update-kernel=ALL"] and len(words) == 2:
    option, _, text = words[1].partition("=")
    if option not in ("--args", "--remove-args"):
        end(1, f"grubby: this stand-in does not know {option}")
    for entry in entries:
        have = entry["args"].split()
        for argument in text.split():
            if option == "--args":
                name = argument.partition("=")[0]
                have = [*(old for old in have if old.partition("=")[0] != name), argument]
            else:
                have = [old for old in have if old != argument]
        entry["args"] = " ".join(have)
    state.write_text(json.dumps(entries))
else:
    end(1, f"grubby: this stand-in does not know {' '.join(words)}")
