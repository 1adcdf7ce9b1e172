#!/usr/bin/env python3
"""Stand-in for `mlxconfig -d DEVICE -e query` and `-y set NAME=VALUE...`.

State: mlxconfig/DEVICE.json (a slash is a dash), {"type", "parameters": {name: {"default", "current", "next"}}}, and
optionally "stuck", names that it does not take, and "old": true for a device that shows the next boot only. A set
changes the next boot; the current value changes in mlxfwreset.
"""

from __future__ import annotations

import json

from standin import end, folder, log_call

WORDS = {"0": "False(0)", "1": "True(1)", "FALSE": "False(0)", "TRUE": "True(1)"}
LINK_TYPES = {"1": "IB(1)", "2": "ETH(2)", "IB": "IB(1)", "ETH": "ETH(2)"}

words = log_call()
if words[:1] != ["-d"]:
    end(1, "-E- this stand-in of mlxconfig needs -d")
state = folder() / f"mlxconfig/{words[1].strip('/').replace('/', '-')}.json"
if not state.exists():
    print("-E- Failed to open the device")
    end(3, "")
device = json.loads(state.read_text())
parameters = device["parameters"]
if words[2:] == ["-e", "query"]:
    columns = ["next"] if device.get("old") else ["default", "current", "next"]
    titles = {"default": "Default", "current": "Current", "next": "Next Boot"}
    print(f"\nDevice #1:\n----------\n\nDevice type:    {device['type']}\nDevice:         {words[1]}\n")
    print(f"{'Configurations:':<45}" + "".join(f"{titles[column]:<16}" for column in columns))
    for name, has in parameters.items():
        star = "*" if len({has[column] for column in columns}) > 1 else " "
        print(f"{star}        {name:<36}" + "".join(f"{has[column]:<16}" for column in columns))
elif words[2:4] == ["-y", "set"]:
    print(f"\nDevice #1:\n----------\n\nDevice type:    {device['type']}\n")
    for word in words[4:]:
        name, _, value = word.partition("=")
        if name not in parameters:
            end(3, f"-E- The Device doesn't support {name} parameter")
        table = (
            LINK_TYPES
            if name.startswith("LINK_TYPE")
            else WORDS
            if "(" in parameters[name]["default"]
            else {}
        )
        if table and value.upper() not in table:
            end(3, f"-E- Unknown value {value} for {name}")
        if name not in device.get("stuck", []):
            parameters[name]["next"] = table.get(value.upper(), value)
    state.write_text(json.dumps(device))
    print("Applying... Done!\n-I- Please reboot machine to load new configurations.")
else:
    end(1, f"-E- this stand-in of mlxconfig does not know {' '.join(words[2:])}")
