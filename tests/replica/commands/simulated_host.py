"""What is in a simulated host: an XE9680 cut down to as many H100 GPUs and ConnectX-7 ports as hardware.json says.

hardware.json in the state folder (role sim_hardware): {"gpus": 2, "rails": [addresses of rail0, rail1 ...], "board_id",
"firmware", "bios"}. Everything else follows from it: GPU n and NIC n share a PCIe switch, the first half of the
switches is on the first CPU, and with two GPUs or more there are four NVSwitches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from standin import folder

READ_REQUEST_512 = "2936"
ALL_REDIRECTED = "001f"
PARAMETERS = {
    "LINK_TYPE_P1": "ETH(2)",
    "ATS_ENABLED": "True(1)",
    "ROCE_CC_PRIO_MASK_P1": "255",
    "ADVANCED_PCI_SETTINGS": "False(0)",
}


@dataclass(frozen=True)
class Function:
    """One PCI function; `slot` numbers the PCIe switches, None is a device at the CPU itself."""

    pci: str
    vendor: str
    device: str
    kind: str
    numa_node: int
    bridges: tuple[str, ...] = ()
    slot: int | None = None
    registers: dict[str, str] = field(default_factory=lambda: {"CAP_EXP+8.w": READ_REQUEST_512})


def hardware() -> dict[str, Any]:
    """hardware.json."""
    found: dict[str, Any] = json.loads((folder() / "hardware.json").read_text())
    return found


def _numa(slot: int, slots: int) -> int:
    return 0 if slot < (slots + 1) // 2 else 1


def bridges(about: dict[str, Any]) -> list[Function]:
    """The root port and the switch's port of each slot; they redirect peer-to-peer traffic until somebody stops it."""
    slots = max(about["gpus"], len(about["rails"]))
    found = []
    for slot in range(slots):
        root, port = f"0000:{0x10 + 0x14 * slot:02x}:01.0", f"0000:{0x11 + 0x14 * slot:02x}:00.0"
        registers = {"ECAP_ACS+6.w": ALL_REDIRECTED, "CAP_EXP+8.w": READ_REQUEST_512}
        for pci, above in ((root, ()), (port, (root,))):
            found.append(
                Function(pci, "0x1000", "0xc030", "0x060400", _numa(slot, slots), above, slot, registers)
            )
    return found


def _below(about: dict[str, Any], count: int, at: int, vendor: str, device: str, kind: str) -> list[Function]:
    ports = {one.slot: (*one.bridges, one.pci) for one in bridges(about) if one.bridges}
    slots = len(ports)
    return [
        Function(
            f"0000:{at + 0x14 * slot:02x}:00.0", vendor, device, kind, _numa(slot, slots), ports[slot], slot
        )
        for slot in range(count)
    ]


def gpus(about: dict[str, Any]) -> list[Function]:
    """H100 SXM5."""
    return _below(about, about["gpus"], 0x18, "0x10de", "0x2330", "0x030200")


def nics(about: dict[str, Any]) -> list[Function]:
    """ConnectX-7, one port each."""
    return _below(about, len(about["rails"]), 0x19, "0x15b3", "0x1021", "0x020000")


def switches(about: dict[str, Any]) -> list[Function]:
    """NVSwitches."""
    count = 4 if about["gpus"] > 1 else 0
    return [Function(f"0000:{0xC0 + n:02x}:00.0", "0x10de", "0x22a3", "0x068000", 0) for n in range(count)]


def functions(about: dict[str, Any]) -> list[Function]:
    """The whole PCI bus."""
    return [*bridges(about), *gpus(about), *nics(about), *switches(about)]


def smi_gpus(about: dict[str, Any]) -> list[dict[str, Any]]:
    """The state of the stand-in of nvidia-smi after a boot."""
    return [
        {
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": f"GPU-{slot:08d}-0000-0000-0000-000000000000",
            "pci.bus_id": f"0000{one.pci}".upper(),
            "persistence_mode": "Disabled",
            "memory.total": 81559,
            "vbios_version": "96.00.74.00.1A",
            "ecc.errors.uncorrected.volatile.total": 0,
            "remapped_rows.uncorrectable": 0,
            "remapped_rows.pending": "No",
            "remapped_rows.failure": "No",
        }
        for slot, one in enumerate(gpus(about))
    ]


def topology(about: dict[str, Any]) -> str:
    """What `nvidia-smi topo -m` prints, empty without a GPU."""
    rows = [(f"GPU{n}", one) for n, one in enumerate(gpus(about))]
    if not rows:
        return ""
    ports = [(f"NIC{n}", one) for n, one in enumerate(nics(about))]
    rows += ports
    lines = ["\t".join(["", *(name for name, _ in rows), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name, one in rows:
        cells = [_link(one, other) for _, other in rows]
        affinity = ["0-55" if one.numa_node == 0 else "56-111", str(one.numa_node), "", "N/A"]
        lines.append("\t".join([name, *cells, *(affinity if name.startswith("GPU") else ["", "", "", ""])]))
    lines += ["", "Legend:", "", "  X    = Self", "", "NIC Legend:", ""]
    lines += [f"  {name}: mlx5_{n}" for n, (name, _) in enumerate(ports)]
    return "\n".join([*lines, ""])


def _link(one: Function, other: Function) -> str:
    if one.pci == other.pci:
        return " X "
    if one.kind == other.kind == "0x030200":
        return "NV18"
    if one.slot == other.slot:
        return "PIX"
    return "NODE" if one.numa_node == other.numa_node else "SYS"
