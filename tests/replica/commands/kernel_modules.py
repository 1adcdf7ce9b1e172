"""Kernel modules of a simulated host; shared by modprobe, modinfo, lsmod, dkms and by what happens at boot.

A module on disk is a file NAME.ko of JSON with what is asked of it: "version", "license", "depends", "parameters", and
"modversions" {symbol: CRC} of the symbols that it was compiled against. As in depmod, updates/ goes before kernel/.
A loaded module is an entry of modules/loaded.json; /proc and /sys of the stand-ins are written anew from it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path

from standin import folder

PEER_SYMBOL = "ib_register_peer_memory_client"


def root() -> Path:
    """Where the host's files are; a test takes a folder."""
    return Path(os.environ.get("KVLAB_STANDINS_ROOT", "/"))


def kernel() -> str:
    """The release of the running kernel."""
    return platform.release()


def plain(name: str) -> str:
    """A module's name as the kernel writes it."""
    return name.replace("-", "_")


def find(name: str) -> Path | None:
    """The module's file for the running kernel."""
    for part in ("updates", "kernel"):
        for path in sorted((root() / "lib/modules" / kernel() / part).rglob("*.ko")):
            if plain(path.stem) == plain(name):
                return path
    return None


def shown(path: Path) -> str:
    """The file's path as seen on the host."""
    return "/" + str(path.relative_to(root()))


def loaded() -> dict:
    """Loaded modules by name, in the order of loading."""
    state = folder() / "modules/loaded.json"
    return json.loads(state.read_text()) if state.exists() else {}


def load(name: str) -> str:
    """Load a module with what it depends on; returns a complaint, empty when it is loaded."""
    modules = loaded()
    if plain(name) in modules:
        return ""
    path = find(name)
    if path is None:
        return f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{kernel()}"
    about = json.loads(path.read_text())
    for needed in about.get("depends", []):
        if complaint := load(needed):
            return complaint
    modules = loaded()
    exported = modules.get("ib_core", {}).get("exports", {})
    if plain(name) == "nvidia_peermem":
        wants, has = about.get("modversions", {}).get(PEER_SYMBOL), exported.get(PEER_SYMBOL)
        if wants is None or wants != has:
            if wants is not None:
                say(f"nvidia_peermem: disagrees about version of symbol {PEER_SYMBOL}")
            return f"modprobe: ERROR: could not insert '{plain(name)}': Invalid argument"
    if plain(name) == "nvidia" and "nouveau" in modules:
        say("NVRM: GPU is already bound to nouveau.")
        return "modprobe: ERROR: could not insert 'nvidia': No such device"
    modules[plain(name)] = {**about, "filename": shown(path)}
    keep(modules)
    return ""


def unload(name: str) -> None:
    """Take a module out."""
    keep({other: about for other, about in loaded().items() if other != plain(name)})


def say(line: str) -> None:
    """One line of the kernel's log."""
    with (folder() / "kernel.log").open("a") as log:
        log.write(line + "\n")


def keep(modules: dict) -> None:
    """Note what is loaded and lay out /proc/modules, /proc/driver/nvidia and /sys/module for it."""
    home = folder()
    (home / "modules").mkdir(parents=True, exist_ok=True)
    (home / "modules/loaded.json").write_text(json.dumps(modules, indent=1))
    proc, sysfs = home / "proc", home / "sysfs/module"
    proc.mkdir(exist_ok=True)
    (proc / "modules").write_text(
        "".join(f"{name} 65536 0 - Live 0x0000000000000000 (OE)\n" for name in reversed(modules))
    )
    for name in {*(path.name for path in sysfs.glob("*")), *modules}:
        shutil.rmtree(sysfs / name, ignore_errors=True)
        if name in modules:
            (sysfs / name / "holders").mkdir(parents=True)
            for field in ("version", "srcversion"):
                if field in modules[name]:
                    (sysfs / name / field).write_text(modules[name][field] + "\n")
    for name, about in modules.items():
        for needed in about.get("depends", []):
            (sysfs / plain(needed) / "holders" / name).mkdir()
    driver = proc / "driver/nvidia/version"
    driver.unlink(missing_ok=True)
    if "nvidia" in modules:
        driver.parent.mkdir(parents=True, exist_ok=True)
        kind = (
            "Open Kernel Module for x86_64"
            if "MIT" in modules["nvidia"]["license"]
            else "x86_64 Kernel Module"
        )
        driver.write_text(
            f"NVRM version: NVIDIA UNIX {kind}  {modules['nvidia']['version']}  Release Build  (dvs-builder)  \n"
            "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
        )
