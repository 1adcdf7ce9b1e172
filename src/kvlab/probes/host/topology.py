"""Which NIC is near which GPU, by `nvidia-smi topo -m`; topic `gpu_topology` (see checks.driver)."""

from __future__ import annotations

from typing import Any

from kvlab.hostparsers import gpu_topology, rdma_sysfs
from kvlab.probes.host.tools import root, said


def collect(job: Any) -> dict[str, Any]:
    """The assignment of NICs to GPUs that the matrix gives; usable are the NICs of the job, else the active ones."""
    matrix = said("nvidia-smi", "topo", "-m")
    if matrix is None:
        return {"error": "nvidia-smi topo -m gave nothing"}
    found = gpu_topology.parse(matrix)
    usable = [nic for nic in job.get("used") or _active(job) if nic in found["nics"]]
    assigned = gpu_topology.assign(found["links"], usable)
    return {
        "usable": usable,
        "assignment": {gpu: {"nic": nic, "distance": distance} for gpu, (nic, distance) in assigned.items()},
    }


def _active(job: Any) -> list[str]:
    return [
        device["name"]
        for device in rdma_sysfs.devices(root(job, "sysfs"))
        if any(port["state"] == "ACTIVE" for port in device["ports"])
    ]
