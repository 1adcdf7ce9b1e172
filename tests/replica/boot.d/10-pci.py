#!/usr/bin/env python3
"""Boot of a simulated host: PCI bus and config space as after power-on, its firmware, the kernel's arguments."""

from __future__ import annotations

import json
import shutil

import fake_sysfs
import simulated_host
from standin import folder

home, about = folder(), simulated_host.hardware()
sysfs, proc = home / "sysfs", home / "proc"
shutil.rmtree(sysfs, ignore_errors=True)
for part in ("class/net", "bus/pci/devices", "module", "class/dmi/id"):
    (sysfs / part).mkdir(parents=True)
bus = simulated_host.functions(about)
for one in bus:
    home_of = fake_sysfs.function(
        sysfs, one.pci, one.bridges, one.vendor, one.device, one.kind, one.numa_node
    )
    # PCIe 5.0 x16, trained as far as the slot allows.
    for when in ("current", "max"):
        (home_of / f"{when}_link_speed").write_text("32.0 GT/s PCIe\n")
        (home_of / f"{when}_link_width").write_text("16\n")
(home / "pci.json").write_text(json.dumps({one.pci: one.registers for one in bus}, indent=1))
for name, text in (
    ("sys_vendor", "Dell Inc."),
    ("product_name", "PowerEdge XE9680"),
    ("bios_version", about["bios"]),
):
    (sysfs / "class/dmi/id" / name).write_text(text + "\n")
(home / "nvidia-smi").mkdir(exist_ok=True)
(home / "nvidia-smi/gpus.json").write_text(json.dumps(simulated_host.smi_gpus(about), indent=1))
(home / "nvidia-smi/topo.txt").write_text(simulated_host.topology(about))
# The stand-in of update-grub keeps the line that the boot loader would give to the kernel.
grub = home / "update-grub/grub.cfg"
words = grub.read_text().split()[2:] if grub.exists() else ["root=UUID=0", "ro", "quiet"]
proc.mkdir(exist_ok=True)
(proc / "cmdline").write_text(" ".join(["BOOT_IMAGE=/boot/vmlinuz", *words]) + "\n")
