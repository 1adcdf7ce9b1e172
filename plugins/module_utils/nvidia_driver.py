# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's devices in sysfs and the driver's own version file. Standard library only."""

from __future__ import annotations

import re
from pathlib import Path

VENDOR = "0x10de"

# The upper two bytes of a PCI class: VGA or 3D controllers, and "bridge, other", which an NVSwitch is.
GPU_CLASSES = ("0300", "0302")
SWITCH_CLASS = "0680"

_NVRM = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)


def devices(sysfs_root):
    """{"gpus", "nvswitches"}: PCI addresses of NVIDIA's devices of each kind, sorted."""
    found = {"gpus": [], "nvswitches": []}
    home = Path(sysfs_root, "bus/pci/devices")
    for path in sorted(home.iterdir()) if home.is_dir() else []:
        if (path / "vendor").read_text().strip() != VENDOR:
            continue
        kind = (path / "class").read_text().strip()[2:6]
        if kind in GPU_CLASSES:
            found["gpus"].append(path.name)
        elif kind == SWITCH_CLASS:
            found["nvswitches"].append(path.name)
    return found


def loaded_version(proc_root):
    """The version of the driver in the kernel, None when it is not loaded."""
    path = Path(proc_root, "driver/nvidia/version")
    match = _NVRM.search(path.read_text()) if path.is_file() else None
    return match[1] if match else None


def is_loaded(proc_root, name):
    """Whether /proc/modules has the module."""
    lines = Path(proc_root, "modules").read_text().splitlines()
    return any(line.split(" ", 1)[0] == name for line in lines)
