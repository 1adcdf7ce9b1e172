# SPDX-License-Identifier: Apache-2.0
"""GPUs and NICs on the PCI bus as sysfs shows them, with what network interfaces stand on. Standard library only."""

from __future__ import annotations

from pathlib import Path

NVIDIA, MELLANOX = "10de", "15b3"

# The upper two bytes of a PCI class: VGA and 3D controllers; Ethernet and InfiniBand controllers.
_GPU = (NVIDIA, ("0300", "0302"))
_NIC = (MELLANOX, ("0200", "0207"))


def devices(root):
    """{"gpus", "nics"}, each a list of {"address", "id", "netdevs", "link"} in the order of PCI addresses.

    `id` is vendor:device in hexadecimal, `link` has speed and width, now and at most (GT/s and lanes, None where the
    kernel does not know). Virtual functions are left out: they have no link of their own.
    """
    found = {"gpus": [], "nics": []}
    home = Path(root, "bus/pci/devices")
    for path in sorted(home.iterdir()) if home.is_dir() else []:
        vendor, device, kind = (text(path / name) or "" for name in ("vendor", "device", "class"))
        vendor, kind = vendor[2:], kind[2:6]
        if (path / "physfn").exists():
            continue
        for group, (maker, classes) in (("gpus", _GPU), ("nics", _NIC)):
            if vendor == maker and kind in classes:
                netdevs = path / "net"
                entry = {"address": path.name, "id": vendor + ":" + device[2:], "link": link(path)}
                entry["netdevs"] = sorted(one.name for one in netdevs.iterdir()) if netdevs.is_dir() else []
                found[group].append(entry)
    return found


def link(path):
    """Speed in GT/s and width in lanes of a device's PCIe link."""
    return {
        "speed": _number(path / "current_link_speed", float),
        "max_speed": _number(path / "max_link_speed", float),
        "width": _number(path / "current_link_width", int),
        "max_width": _number(path / "max_link_width", int),
    }


def below(root, netdev):
    """The netdevs that carry one: itself, or those that a VLAN, bond or bridge stands on at last."""
    home = Path(root, "class/net", netdev)
    lower = sorted(path.name[len("lower_") :] for path in home.glob("lower_*"))
    return [deeper for one in lower for deeper in below(root, one)] or [netdev]


def iommu_groups(root):
    """{type: count} of the IOMMU's groups; empty without an IOMMU."""
    counts = {}
    for path in Path(root, "kernel/iommu_groups").glob("*/type"):
        kind = text(path) or "unknown"
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def text(path):
    """A file's text without its newline; None when it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _number(path, kind):
    words = (text(path) or "").split()
    try:
        return kind(words[0])
    except (IndexError, ValueError):  # "Unknown" is the kernel's word for a link that does not say
        return None
