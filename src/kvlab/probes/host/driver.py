"""NVIDIA's driver: the module that runs, the files on disk, what CUDA says; topic `driver` (see checks.driver)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvlab.hostparsers import dma_buf
from kvlab.probes.host import pcie
from kvlab.probes.host.kernel import kernel_log
from kvlab.probes.host.tools import dpkg, names, root, said, text

_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)$")
_BAR1 = re.compile(
    r"BAR1 Memory Usage\s+Total\s*: (\d+) MiB\s+(?:Reserved\s*: \d+ MiB\s+)?Used\s*: (\d+) MiB"
)
_BLACKWELL = ("0x29", "0x2b", "0x31")
"""First byte of the PCI device ids of B200, GB200 and B300, whose NVLink needs ib_umad."""


def collect(job: Any) -> dict[str, Any]:
    """Facts about the driver."""
    proc, sysfs = root(job, "proc"), root(job, "sysfs")
    gpus = [device for device in pcie.collect(job)["devices"] if device["kind"] == "gpu"]
    loaded = _VERSION.search(text(proc / "driver/nvidia/version") or "")
    cuda = dma_buf.cuda()
    log = kernel_log()
    packages = dpkg("nvidia-*", "libnvidia-*", "cuda-drivers*", "linux-modules-nvidia-*")
    return {
        "gpus": len(gpus),
        "loaded": loaded[1] if loaded else "",
        "license": (said("modinfo", "-F", "license", "nvidia") or "").strip(),
        "installed": (said("modinfo", "-F", "version", "nvidia") or "").strip() or None,
        "userland": userland(packages),
        "fabricmanager": {
            "version": next((v for n, v in packages.items() if n.startswith("nvidia-fabricmanager")), ""),
            "active": (said("systemctl", "is-active", "nvidia-fabricmanager") or "").strip() == "active",
        },
        "nvswitches": switches(sysfs),
        "nvlink5": any(_device_id(sysfs, gpu["bdf"]).startswith(_BLACKWELL) for gpu in gpus),
        "modules": [line.split()[0] for line in (text(proc / "modules") or "").splitlines() if line.split()],
        "kernel": text(Path("/proc/sys/kernel/osrelease")) or "",
        "cuda_init": {"code": cuda["code"], "name": cuda["name"]} if cuda else None,
        "dma_buf": cuda["dma_buf"] if cuda and cuda["code"] == 0 else None,
        "persistence": persistence(
            said("nvidia-smi", "--query-gpu=index,persistence_mode", "--format=csv,noheader")
        ),
        "bar1": bar1(said("nvidia-smi", "-q", "-d", "MEMORY")),
        "packages": origins(packages),
        "xid": None if log is None else [line for line in log if "Xid" in line],
    }


def userland(packages: dict[str, str]) -> str | None:
    """Version of the driver's libraries, from the file names, else from the packages."""
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"):
        for name in names(Path(folder)):
            match = _LIBRARY.match(name)
            if match:
                return match[1]
    for name in ("libnvidia-compute", "nvidia-utils"):
        for package, version in packages.items():
            if package.startswith(name):
                return version.partition("-")[0]
    return None


def persistence(answer: str | None) -> dict[str, bool] | None:
    """`0, Enabled` as {"GPU0": True}."""
    if answer is None:
        return None
    rows = [line.split(",") for line in answer.splitlines() if "," in line]
    return {f"GPU{index.strip()}": "Enabled" in mode for index, mode in rows}


def bar1(answer: str | None) -> dict[str, dict[str, int]] | None:
    """BAR1 of each GPU in `nvidia-smi -q -d MEMORY`, in its order."""
    found = _BAR1.findall(answer or "")
    if not found:
        return None
    return {
        f"GPU{n}": {"total_mib": int(total), "used_mib": int(used)} for n, (total, used) in enumerate(found)
    }


def origins(packages: dict[str, str]) -> dict[str, dict[str, str]]:
    """Each package with its version and the host (or file) of the repository that its version is from."""
    from kvlab.hostparsers import apt_policy

    policy = apt_policy.parse_policy(said("apt-cache", "policy", *packages) or "") if packages else {}
    found = {}
    for name, version in packages.items():
        sources = [
            source["source"]
            for one in policy.get(name, {}).get("versions", ())
            if one["version"] == version
            for source in one["sources"]
            if "/var/lib/dpkg/status" not in source["source"]
        ]
        found[name] = {"version": version, "origin": sources[0].split()[0] if sources else ""}
    return found


def switches(sysfs: Path) -> int:
    """NVSwitches on the PCI bus (bridges of other kinds, by NVIDIA)."""
    folder = sysfs / "bus/pci/devices"
    return sum(
        text(folder / bdf / "vendor") == pcie.NVIDIA and (text(folder / bdf / "class") or "")[:6] == "0x0680"
        for bdf in names(folder)
    )


def _device_id(sysfs: Path, bdf: str) -> str:
    return text(sysfs / "bus/pci/devices" / bdf / "device") or ""
