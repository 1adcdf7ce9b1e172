#!/usr/bin/env python3
"""Boot of a simulated host: kernel modules are loaded as udev, the initramfs and modules-load.d would have it."""

from __future__ import annotations

import json

import kernel_modules
from standin import folder


def has_gpu() -> bool:
    return bool(json.loads((folder() / "nvidia-smi/gpus.json").read_text()))


kernel_modules.keep({})
blacklist = folder() / "initramfs/blacklist"
forbidden = blacklist.read_text().split() if blacklist.exists() else []
wanted = ["mlx5_core", "ib_core", "ib_uverbs", "mlx5_ib"]
if has_gpu():
    wanted += ["nouveau", "nvidia", "nvidia_uvm"]
for path in sorted((kernel_modules.root() / "etc/modules-load.d").glob("*.conf")):
    wanted += [line.strip() for line in path.read_text().splitlines() if line.strip() and line[0] not in "#;"]
for name in wanted:
    if (
        name not in forbidden
        and kernel_modules.find(name) is not None
        and (complaint := kernel_modules.load(name))
    ):
        kernel_modules.say(complaint)
