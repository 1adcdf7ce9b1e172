#!/usr/bin/env python3
"""Stand-in for nvidia-smi: `topo -m`, `-L`, `-pm 0|1`, `--query-gpu=FIELDS` and `--query-remapped-rows=FIELDS`
with `--format=csv[,noheader][,nounits]`.

State: nvidia-smi/topo.txt is what `topo -m` prints; nvidia-smi/gpus.json a list of GPUs, each with the fields of
`--help-query-gpu` that a test wants, dots as they are there. An empty file is a host without GPU, a missing one a
driver that does not answer. driver_version comes from the loaded module, as from NVML; where that is another than the
installed libraries', every call fails as it does after an upgrade without a reboot.
"""

from __future__ import annotations

import json
import sys

import kernel_modules
from standin import carried_by, end, folder, log_call

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running.\n"
)
UNITS = {"memory.total": "MiB", "memory.used": "MiB", "power.draw": "W", "power.limit": "W"}


def stop(status: int, sentence: str) -> None:
    """nvidia-smi complains on standard output."""
    print(sentence)
    sys.exit(status)


def matrix() -> None:
    path = folder() / "nvidia-smi/topo.txt"
    if not path.exists():
        stop(9, NO_DRIVER)
    if not path.read_text():
        stop(6, "No devices were found")
    print(path.read_text(), end="")


def query(fields: list[str], how: list[str], gpus: list[dict]) -> None:
    units = "nounits" not in how
    if "noheader" not in how:
        print(", ".join(f"{name} [{UNITS[name]}]" if units and name in UNITS else name for name in fields))
    for gpu in gpus:
        for name in fields:
            if name not in gpu:
                stop(2, f'Field "{name}" is not a valid field to query.\n')
        values = [
            f"{gpu[name]} {UNITS[name]}" if units and name in UNITS else str(gpu[name]) for name in fields
        ]
        print(", ".join(values))


words = log_call()
library, modules = carried_by("libnvidia-ml"), kernel_modules.loaded()
# In unit tests neither a package nor a module is there: then only the state files speak.
if library and "nvidia" not in modules:
    stop(9, NO_DRIVER)
if library and modules["nvidia"]["version"] != library:
    stop(
        18,
        "Failed to initialize NVML: Driver/library version mismatch\n"
        f"NVML library version: {library.rpartition('.')[0]}",
    )
if words == ["topo", "-m"]:
    matrix()
    sys.exit(0)
state = folder() / "nvidia-smi/gpus.json"
if not state.exists():
    stop(9, NO_DRIVER)
gpus = [{"index": at, **gpu} for at, gpu in enumerate(json.loads(state.read_text()))]
if "nvidia" in modules:
    gpus = [{**gpu, "driver_version": modules["nvidia"]["version"]} for gpu in gpus]
if not gpus:
    stop(6, "No devices were found")
asked = {word.partition("=")[0]: word.partition("=")[2] for word in words}
if words == ["-L"]:
    for gpu in gpus:
        print(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})")
elif words[:1] == ["-pm"] and words[1:] in (["0"], ["1"]):
    mode = "Enabled" if words[1] == "1" else "Disabled"
    state.write_text(json.dumps([{**gpu, "persistence_mode": mode} for gpu in gpus], indent=1))
elif asked.keys() & {"--query-gpu", "--query-remapped-rows"} and asked.get("--format", "").startswith("csv"):
    if "--query-remapped-rows" in asked:
        # That query has names of its own for what tells GPUs apart.
        gpus = [{**gpu, "gpu_bus_id": gpu["pci.bus_id"]} for gpu in gpus]
    fields = asked.get("--query-gpu") or asked["--query-remapped-rows"]
    names = [name.strip() for name in fields.split(",")]
    query(names, [word.strip() for word in asked["--format"].split(",")], gpus)
else:
    end(1, f"this stand-in of nvidia-smi does not know {' '.join(words)}")
