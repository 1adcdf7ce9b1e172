"""Firmware that a host runs: BIOS, NICs, GPUs; topic `firmware` (see checks.firmware). It is read and never written."""

from __future__ import annotations

from typing import Any

from kvlab.hostparsers import rdma_sysfs
from kvlab.probes.host import pcie
from kvlab.probes.host.tools import root, said, text

_ASKED = ("index", "name", "vbios_version")


def collect(job: Any) -> dict[str, Any]:
    """Facts about firmware. Of the job: `firmware` with the stack's name and its accepted list."""
    sysfs = root(job, "sysfs")
    dmi = sysfs / "class/dmi/id"
    on_bus = [device for device in pcie.collect(job)["devices"] if device["kind"] == "gpu"]
    return {
        "bios": {
            "vendor": text(dmi / "sys_vendor"),
            "product": text(dmi / "product_name"),
            "version": text(dmi / "bios_version"),
        },
        "nics": [
            {"name": one["name"], "psid": one["board_id"], "firmware": one["firmware"]}
            for one in rdma_sysfs.devices(str(sysfs))
        ],
        "gpus_on_bus": len(on_bus),
        "gpus": gpus(said("nvidia-smi", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader")),
        **(job.get("firmware") or {"stack": None, "accepted": {}}),
    }


def gpus(answer: str | None) -> list[dict[str, str | None]] | None:
    """`0, NVIDIA H100 80GB HBM3, 96.00.89.00.01`, a line for each GPU; None where nvidia-smi says nothing."""
    if answer is None:
        return None
    rows = [[word.strip() for word in line.split(",")] for line in answer.splitlines()]
    return [
        # A GPU that does not answer says so in brackets: [N/A], [Unknown Error].
        {"gpu": f"GPU{row[0]}", "name": row[1], "vbios": None if row[2].startswith("[") else row[2]}
        for row in rows
        if len(row) == len(_ASKED)
    ]
