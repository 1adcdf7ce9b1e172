#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PCIe settings of the running hardware: ACS of bridges, and the largest read request of RDMA NICs.

Set at each boot, because config space forgets them. What the devices say is read first, and only what differs is
written. Exit status: 0 nothing to do, or done; 1 with --check, something differs; 2 it cannot be done. Prints one line
for each device that differs.

Sources: PCI Express Base Specification, ACS (extended capability 0x000d, control register at +6) and Device Control
(PCI Express capability +8, bits 14:12); NCCL's user guide, "PCI Access Control Services".
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

BRIDGE_CLASS = "0x0604"
MELLANOX = "0x15b3"

ACS = "ECAP_ACS+6.w"
ACS_REDIRECT = 0x001F
"""Source validation, translation blocking, request and completion redirect, upstream forwarding: each of them sends
peer-to-peer traffic up to the root complex. The two bits above them are left alone."""

DEVICE_CONTROL = "CAP_EXP+8.w"
READ_REQUEST_SHIFT, READ_REQUEST_MASK = 12, 0x7000
SMALLEST_READ_REQUEST = 128


class SettingsError(Exception):
    """What was asked for cannot be done; the message says why."""


def setpci(device, register, value=None):
    """Read a register of a device, or write it; None when the device has no such capability."""
    argument = register if value is None else f"{register}={value:04x}"
    done = subprocess.run(["setpci", "-s", device, argument], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if "apability" in done.stderr:
            return None
        raise SettingsError(f"setpci -s {device} {argument}: {done.stderr.strip() or done.returncode}")
    return int(done.stdout.strip(), 16) if value is None else value


def devices(sysfs):
    """Address, class and vendor of each PCI device."""
    for folder in sorted((sysfs / "bus/pci/devices").glob("*")):
        kind, vendor = ((folder / name).read_text("ascii").strip() for name in ("class", "vendor"))
        yield folder.name, kind, vendor


def acs(address, kind, _vendor):
    """(register, old, new) where a bridge redirects peer-to-peer traffic, else None."""
    if not kind.startswith(BRIDGE_CLASS):
        return None
    old = setpci(address, ACS)
    return (ACS, old, old & ~ACS_REDIRECT) if old is not None and old & ACS_REDIRECT else None


def read_request(size):
    """The same for NICs whose largest read request is not `size` bytes."""
    code = (size // SMALLEST_READ_REQUEST).bit_length() - 1
    if not 0 <= code <= 5 or SMALLEST_READ_REQUEST << code != size:
        raise SettingsError(
            f"a read request of {size} bytes does not exist; 128, 256, 512, 1024, 2048 and 4096 do"
        )

    def rule(address, kind, vendor):
        if vendor != MELLANOX or not kind.startswith("0x02"):
            return None
        old = setpci(address, DEVICE_CONTROL)
        if old is None:
            return None
        new = old & ~READ_REQUEST_MASK | code << READ_REQUEST_SHIFT
        return (DEVICE_CONTROL, old, new) if new != old else None

    return rule


def work(sysfs, rules, check):
    """Set what differs, or with `check` only tell; returns one line for each."""
    lines = []
    for device in devices(sysfs):
        for rule in rules:
            found = rule(*device)
            if found is None:
                continue
            register, old, new = found
            lines.append(f"{device[0]} {register} {old:04x} -> {new:04x}")
            if not check:
                setpci(device[0], register, new)
                if setpci(device[0], register) != new:
                    raise SettingsError(f"{device[0]} does not keep {register} = {new:04x}")
    return lines


def main():
    parser = argparse.ArgumentParser(description="PCIe settings that the hardware forgets at each boot")
    parser.add_argument(
        "--acs-off", action="store_true", help="bridges let devices reach each other directly"
    )
    parser.add_argument("--max-read-request", type=int, metavar="BYTES", help="of Mellanox NICs")
    parser.add_argument("--sysfs-root", type=Path, default=Path("/sys"))
    parser.add_argument("--check", action="store_true", help="tell what differs, set nothing")
    given = parser.parse_args()
    try:
        rules = [acs] if given.acs_off else []
        if given.max_read_request is not None:
            rules.append(read_request(given.max_read_request))
        if rules and any(True for _ in devices(given.sysfs_root)) and shutil.which("setpci") is None:
            raise SettingsError("there is no setpci; install pciutils")
        lines = work(given.sysfs_root, rules, given.check)
    except SettingsError as error:
        print(f"pcie_settings: {error}", file=sys.stderr)
        return 2
    print("".join(f"{line}\n" for line in lines), end="")
    return int(given.check and bool(lines))


if __name__ == "__main__":
    sys.exit(main())
