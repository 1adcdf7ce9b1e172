#!/usr/bin/env python3
"""Stand-in for `setpci -s DEVICE REGISTER[=VALUE]`.

State: pci.json, registers by device, such as {"0000:5e:00.0": {"CAP_EXP+8.w": "2936"}}. At a reboot it is to become
what stands in pci.boot.json, as config space does.
"""

from __future__ import annotations

import json

from standin import end, folder, log_call

words = log_call()
if len(words) != 3 or words[0] != "-s":
    end(1, f"this stand-in of setpci does not know {' '.join(words)}")
state = folder() / "pci.json"
devices = json.loads(state.read_text())
register, sign, value = words[2].partition("=")
if words[1] not in devices:
    end(1, f'setpci: Warning: No devices selected for "{register}".')
registers = devices[words[1]]
if register not in registers:
    capability = register.split("+")[0]
    end(1, f"setpci: {words[1]}: Instance #0 of Capability {capability} not found")
if sign:
    registers[register] = f"{int(value, 16):04x}"
    state.write_text(json.dumps(devices))
else:
    print(registers[register])
