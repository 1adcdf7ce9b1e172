"""PCIe as sysfs shows it: links, ACS, read requests, IOMMU; topic `pcie` (see checks.platform)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvlab.probes.host.tools import names, root, text

NVIDIA, MELLANOX = "0x10de", "0x15b3"
_DISPLAY, _NETWORK, _PCI_BRIDGE = ("0x0300", "0x0302"), ("0x0200", "0x0207"), "0x0604"
_EXPRESS, _ACS = 0x10, 0x000D
_FIRST_EXTENDED = 0x100


def collect(job: Any) -> dict[str, Any]:
    """Facts about bridges and about the GPUs and NICs below them."""
    sysfs, proc = root(job, "sysfs"), root(job, "proc")
    bridges, devices, readable = [], [], True
    for bdf in names(sysfs / "bus/pci/devices"):
        folder = sysfs / "bus/pci/devices" / bdf
        kind = _kind(text(folder / "vendor") or "", text(folder / "class") or "")
        if not kind:
            continue
        config = _config(folder)
        readable = readable and len(config) > 64
        if kind == "bridge":
            bridges.append({"bdf": bdf, "acs": acs(config)})
        else:
            devices.append(
                {"bdf": bdf, "kind": kind, **_link(folder), "max_read_request": read_request(config)}
            )
    return {
        "virtual": " hypervisor" in (text(Path("/proc/cpuinfo")) or ""),
        "config_readable": readable,
        "iommu_groups": _iommu(sysfs),
        "cmdline": (text(proc / "cmdline") or "").split(),
        "bridges": bridges,
        "devices": devices,
    }


def acs(config: bytes) -> int | None:
    """The ACS control word; None without that capability or without a configuration space that we may read."""
    at = _FIRST_EXTENDED
    for _ in range(48):
        if at + 8 > len(config):
            return None
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == _ACS:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at = header >> 20
        if at < _FIRST_EXTENDED:
            return None
    return None


def read_request(config: bytes) -> int | None:
    """MaxReadReq in bytes, from the device control word of the PCI Express capability."""
    if len(config) <= 64:
        return None
    at = config[0x34] & 0xFC
    for _ in range(48):
        if at < 0x40 or at + 10 > len(config):
            return None
        if config[at] == _EXPRESS:
            control = int.from_bytes(config[at + 8 : at + 10], "little")
            return 128 << (control >> 12 & 7)
        at = config[at + 1] & 0xFC
    return None


def _kind(vendor: str, device_class: str) -> str:
    kind = device_class[:6]
    if kind == _PCI_BRIDGE:
        return "bridge"
    if vendor == NVIDIA and kind in _DISPLAY:
        return "gpu"
    return "nic" if vendor == MELLANOX and kind in _NETWORK else ""


def _config(folder: Path) -> bytes:
    try:
        return (folder / "config").read_bytes()
    except OSError:
        return b""


def _link(folder: Path) -> dict[str, Any]:
    def number(name: str, kind: Any) -> Any:
        words = (text(folder / name) or "").split()
        try:
            return kind(words[0])
        except (IndexError, ValueError):
            return None

    return {
        "speed": number("current_link_speed", float),
        "max_speed": number("max_link_speed", float),
        "width": number("current_link_width", int),
        "max_width": number("max_link_width", int),
    }


def _iommu(sysfs: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    groups = sysfs / "kernel/iommu_groups"
    for group in names(groups):
        kind = text(groups / group / "type") or "unknown"
        counts[kind] = counts.get(kind, 0) + 1
    return counts
