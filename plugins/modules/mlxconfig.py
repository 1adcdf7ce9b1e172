#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: parameters in a ConnectX's non-volatile memory, through mlxconfig."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: mlxconfig
short_description: Set firmware parameters of a ConnectX device
version_added: "0.1.0"
description:
  - Compares what is wanted with what the device has now and will have after the next boot, and sets only what its next
    boot does not have. Reads it once more afterwards and fails when the device did not take a value.
  - A value is in force only after a reset of the device or a boot. The module reports that one is due, and resets only
    when it is allowed to. A reset interrupts every connection over the device, Ansible's own too.
  - Firmware is never written.
options:
  device:
    description: PCI address such as 0000:5e:00.0, or a device below C(/dev/mst).
    type: str
    required: true
  settings:
    description:
      - Values by parameter, such as LINK_TYPE_P1 to ETH. A value may be the word, the number or a boolean.
      - A parameter that ends in C(_P2) is skipped on a device with one port; any other that is missing is a failure.
    type: dict
    required: true
  allow_reset:
    description: Reset the device with C(mlxfwreset) when a setting is not in force.
    type: bool
    default: false
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Ethernet on both ports, congestion control on all priorities
  kvlab.lab.mlxconfig:
    device: "0000:5e:00.0"
    settings:
      LINK_TYPE_P1: ETH
      LINK_TYPE_P2: ETH
      ROCE_CC_PRIO_MASK_P1: 255
  register: __rdma_fabric_firmware
"""

RETURN = r"""
reset_required:
  description: Whether a wanted setting is not in force and waits for a reset or a boot.
  type: bool
  returned: always
pending:
  description: The wanted parameters that are not in force. Where the device does not say, those that this run has set.
  type: list
  elements: str
  returned: always
reset:
  description: Whether this run has reset the device, or in check mode would have.
  type: bool
  returned: always
skipped:
  description: Parameters of a second port that the device does not have.
  type: list
  elements: str
  returned: always
parameters:
  description: What the device has for each wanted parameter, after the run; C(default), C(current) and C(next).
  type: dict
  returned: always
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import mlxconfig_state


def call(module, name, *words):
    """Output of mlxconfig or mlxfwreset for the device; raises ConfigError when it is missing or fails."""
    path = module.get_bin_path(name)
    if path is None:
        raise mlxconfig_state.ConfigError(f"{name} is not on this host; install mft, which DOCA-OFED brings")
    status, out, complaint = module.run_command([path, "-d", module.params["device"], *words])
    if status:
        errors = [line for line in (out + complaint).splitlines() if line.startswith("-E-")]
        said = " ".join((errors or (complaint or out).strip().splitlines() or ["no word why"])[-1].split())
        raise mlxconfig_state.ConfigError(f"{name} {' '.join(words)} ended with {status}: {said}")
    return out


def query(module):
    """The device's parameters; -e shows the default and the current values beside those of the next boot."""
    return mlxconfig_state.parse(call(module, "mlxconfig", "-e", "query"))


def apply(module, settings):
    """Set values for the next boot; returns the device's parameters then."""
    call(module, "mlxconfig", "-y", "set", *(f"{name}={value}" for name, value in settings.items()))
    have = query(module)
    left = mlxconfig_state.differing(have, settings, "next")
    if left:
        shown = ", ".join(f"{name} is {have[name]['next']} and not {value}" for name, value in left.items())
        raise mlxconfig_state.ConfigError(f"the device did not take all: for the next boot {shown}")
    return have


def reset(module, wanted):
    """Reset the device; returns its parameters then."""
    call(module, "mlxfwreset", "-y", "reset")
    have = query(module)
    left = mlxconfig_state.differing(have, wanted, "current")
    if left:
        raise mlxconfig_state.ConfigError(f"{', '.join(left)} is not in force after the reset; boot the host")
    return have


def values(module):
    """The wanted settings in mlxconfig's spelling; raises ConfigError for one that would be no single argument."""
    settings = module.params["settings"]
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or not re.fullmatch(r"[\w.()-]+", str(value)):
            raise mlxconfig_state.ConfigError(f"{name}={value} is no setting; write it as LINK_TYPE_P1: ETH")
    return {name: spelt(value) for name, value in settings.items()}


def spelt(value):
    """A value as mlxconfig takes it: its word or its number, not both, and a boolean as 1 or 0."""
    text = re.sub(r"^.*\((\d+)\)$", r"\1", str(value))
    return {"true": "1", "false": "0"}.get(text.casefold(), text)


def shown(have, names):
    """Parameters as lines, for the diff."""
    return "".join(f"{name}: {have[name]}\n" for name in names)


def main():
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "str", "required": True},
            "settings": {"type": "dict", "required": True},
            "allow_reset": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    device, done = module.params["device"], False
    try:
        wanted = values(module)
        before = after = query(module)
        wanted, skipped = mlxconfig_state.split(before, wanted)
        todo = mlxconfig_state.differing(before, wanted, "next")
        if todo and not module.check_mode:
            after = apply(module, todo)
        unsaid = [name for name in todo if before[name]["current"] is None]
        pending = [*mlxconfig_state.differing(after, wanted, "current"), *unsaid]
        if pending and module.params["allow_reset"]:
            done = True
            if not module.check_mode:
                after = reset(module, wanted)
                pending = []
    except mlxconfig_state.ConfigError as error:
        module.fail_json(msg=f"{device}: {error}")
    diff = {
        "before": shown({name: before[name]["next"] for name in todo}, todo),
        "after": shown(todo, todo),
        "before_header": f"{device}, next boot",
        "after_header": f"{device}, next boot",
    }
    module.exit_json(
        changed=bool(todo) or done,
        diff=diff,
        reset_required=bool(pending),
        pending=pending,
        reset=done,
        skipped=skipped,
        parameters={name: after[name] for name in wanted},
    )


if __name__ == "__main__":
    main()
