#!/usr/bin/env python3
"""Boot of a simulated host: RDMA devices on the ports that are there, once their driver is loaded.

What a boot forgets is as the driver makes it (mlnx_qos, ECN, traffic class, rdma_cm), and firmware parameters that
waited for the boot are in force. ECN and traffic class have files in DOCA-OFED's driver only, as in reality.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import fake_sysfs
import kernel_modules
import simulated_host
from standin import folder

home, about = folder(), simulated_host.hardware()
sysfs = home / "sysfs"
modules = kernel_modules.loaded()
nics = [(f"mlx5_{n}", f"rail{n}", one) for n, one in enumerate(simulated_host.nics(about))]
for name in ("configfs", "mlnx_qos"):
    shutil.rmtree(home / name, ignore_errors=True)
    (home / name).mkdir()
(home / "mlxconfig").mkdir(exist_ok=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def firmware(pci: str) -> None:
    """The parameters in the NIC's memory: what was set for the next boot is in force."""
    path = home / f"mlxconfig/{pci}.json"
    if path.exists():
        state = json.loads(path.read_text())
        for value in state["parameters"].values():
            value["current"] = value["next"]
    else:
        parameters = {
            name: dict.fromkeys(("default", "current", "next"), value)
            for name, value in simulated_host.PARAMETERS.items()
        }
        state = {"type": "ConnectX7", "parameters": parameters}
    path.write_text(json.dumps(state, indent=1))


def runtime(device: str, netdev: str, ofed: bool) -> None:
    """What can be set and lasts until the next boot."""
    # The interface is a real one, and so is its MTU.
    mtu = sysfs / f"class/net/{netdev}/mtu"
    mtu.unlink()
    mtu.symlink_to(f"/sys/class/net/{netdev}/mtu")
    write(home / f"mlnx_qos/{netdev}.json", "{}")
    ports = home / f"configfs/rdma_cm/{device}/ports/1"
    write(ports / "default_roce_mode", "RoCE v2\n")
    write(ports / "default_roce_tos", "0\n")
    if ofed:
        write(sysfs / f"class/infiniband/{device}/tc/1/traffic_class", "")
        ecn = sysfs / f"class/net/{netdev}/ecn"
        for path in (ecn / end / f"enable/{prio}" for end in ("roce_np", "roce_rp") for prio in range(8)):
            write(path, "0\n")
        write(ecn / "roce_np/cnp_dscp", "48\n")


for _, _, one in nics:
    firmware(one.pci)
# Its presence is how a host shows that its RDMA core registers memory by dma-buf.
symbols = "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n" if "ib_uverbs" in modules else ""
write(home / "proc/kallsyms", symbols)
if "mlx5_ib" in modules:
    fake_sysfs.write(
        sysfs,
        [
            fake_sysfs.Device(
                device,
                one.pci,
                (netdev,),
                {1: fake_sysfs.Port(fake_sysfs.table(netdev, address))},
                numa_node=one.numa_node,
                bridges=one.bridges,
                board_id=about["board_id"],
                firmware=about["firmware"],
            )
            for (device, netdev, one), address in zip(nics, about["rails"], strict=True)
        ],
    )
    for device, netdev, _ in nics:
        runtime(device, netdev, ofed="/updates/" in modules["mlx5_core"]["filename"])
