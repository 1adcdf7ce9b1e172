"""RDMA devices, their quality of service and firmware settings; topic `rdma` (see checks.rdma).

Job: {"used": [device, ...]}, the devices that the lab uses; empty for all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvlab.hostparsers import mlxconfig_state, qos_state, rdma_sysfs
from kvlab.probes.host import network, processes
from kvlab.probes.host.tools import names, root, said, text

GID_INDEX = ("NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX")


def collect(job: Any) -> dict[str, Any]:
    """Facts about every RDMA device."""
    sysfs = root(job, "sysfs")
    used = list(job.get("used") or ())
    devices = rdma_sysfs.devices(sysfs)
    for device in devices:
        device["driver"] = driver(sysfs, device["name"])
    mine = [device for device in devices if not used or device["name"] in used]
    netdevs = [port["netdev"] for device in mine for port in device["ports"] if port["netdev"]]
    environments = [one["environment"] for one in processes.serving(Path("/proc"))]
    indexes = {int(e[n]) for e in environments for n in GID_INDEX if str(e.get(n, "")).isdigit()}
    return {
        "devices": devices,
        "used": used,
        "qos": {netdev: qos(netdev) for netdev in netdevs},
        "lldpad": "lldpad" in _commands(),
        "pending": pending(mine),
        "ofed": ofed(sysfs),
        "gid_index": {device["name"]: index for device in mine for index in indexes},
        "ucx_net_devices": _first(environments, "UCX_NET_DEVICES"),
        "ucx_tls": _first(environments, "UCX_TLS"),
        "default_route": network.default_route(text(Path("/proc/net/route")) or ""),
    }


def qos(netdev: str) -> dict[str, Any]:
    """`mlnx_qos -i NETDEV` parsed, or why not."""
    answer = said("mlnx_qos", "-i", netdev)
    if answer is None:
        return {"error": "mlnx_qos is not installed or failed"}
    try:
        state: dict[str, Any] = qos_state.parse(answer)
    except qos_state.QosError as error:
        return {"error": f"the output of mlnx_qos is not understood: {error}"}
    # JSON has no numbers as keys.
    return {**state, "dscp2prio": {str(d): p for d, p in (state["dscp2prio"] or {}).items()}}


def pending(devices: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]] | None:
    """Firmware settings whose value for the next boot is another than now; None when mlxconfig gave nothing at all."""
    found = {}
    for device in devices:
        answer = said("mlxconfig", "-d", device["pci"] or device["name"], "-e", "query", timeout_s=8)
        if answer is None:
            continue
        try:
            settings = mlxconfig_state.parse(answer)
        except mlxconfig_state.ConfigError:
            continue
        found[device["name"]] = {
            name: [one["current"], one["next"]]
            for name, one in settings.items()
            if one["current"] is not None and one["current"] != one["next"]
        }
    return found or None


def ofed(sysfs: Path) -> dict[str, str] | None:
    """Releases of OFED's user space and module; None where the kernel's own stack is used."""
    release = said("ofed_info", "-s")
    if release is None:
        return None
    return {
        "userland": re.sub(r"^\D*", "", release.strip().rstrip(":")),
        "module": text(sysfs / "module/mlx5_core/version") or "",
        "mlx5_core": (said("modinfo", "-F", "filename", "mlx5_core") or "").strip(),
    }


def driver(sysfs: Path, device: str) -> str | None:
    """The kernel driver of a device; a soft-RoCE device has no PCI function."""
    link = sysfs / "class/infiniband" / device / "device/driver"
    if link.exists():
        return link.resolve().name
    kind = text(sysfs / "class/infiniband" / device / "hca_type")
    return "mlx5_core" if (kind or "").startswith("MT") else kind


def _first(environments: list[dict[str, str]], name: str) -> str | None:
    return next((one[name] for one in environments if one.get(name)), None)


def _commands() -> set[str | None]:
    return {text(Path("/proc", pid, "comm")) for pid in names(Path("/proc")) if pid.isdigit()}
