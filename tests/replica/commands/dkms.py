#!/usr/bin/env python3
"""Stand-in for dkms 3: add, build, install, remove, autoinstall, status, with DKMS's own folders.

/usr/src/NAME-VERSION holds dkms.conf and standin.json: the modules that a build makes, and the symbols that they take
from DOCA-OFED or give to others. A build needs the headers of the kernel, as the real one does. What nvidia-peermem is
compiled against is read at the build from /usr/src/ofa_kernel/default/Module.symvers, where the real conftest looks.
The file dkms/fails, a line "NAME why", makes a build fail.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
from pathlib import Path

import kernel_modules
from standin import end, folder, log_call

TREE = kernel_modules.root() / "var/lib/dkms"
ARCH = platform.machine()


def source(name: str, version: str) -> Path:
    return kernel_modules.root() / f"usr/src/{name}-{version}"


def built(name: str, version: str, kernel: str) -> Path:
    return TREE / name / version / kernel / ARCH


def updates(kernel: str) -> Path:
    return kernel_modules.root() / "lib/modules" / kernel / "updates/dkms"


def about(name: str, version: str) -> dict:
    return json.loads((source(name, version) / "standin.json").read_text())


def is_installed(name: str, version: str, kernel: str) -> bool:
    """Whether the kernel's modules are the ones of this build."""
    made = sorted((built(name, version, kernel) / "module").glob("*.ko"))
    return bool(made) and all(
        (updates(kernel) / path.name).exists()
        and (updates(kernel) / path.name).read_text() == path.read_text()
        for path in made
    )


def add(name: str, version: str) -> None:
    if not (source(name, version) / "dkms.conf").exists():
        end(
            2,
            f"Error! Could not find module source directory.\nDirectory: /usr/src/{name}-{version} does not exist.",
        )
    (TREE / name / version).mkdir(parents=True, exist_ok=True)


def build(name: str, version: str, kernel: str) -> None:
    if not (kernel_modules.root() / "lib/modules" / kernel / "build").exists():
        end(
            21,
            f"Error! Your kernel headers for kernel {kernel} cannot be found at /lib/modules/{kernel}/build or "
            f"/lib/modules/{kernel}/source.\nPlease install the linux-headers-{kernel} package or use the "
            "--kernelsourcedir option to tell DKMS where it's located.",
        )
    refusals = folder() / "dkms/fails"
    if refusals.exists() and refusals.read_text().split(" ")[0] == name:
        end(
            10,
            f"Error! Bad return status for module build on kernel: {kernel} ({ARCH})\n{refusals.read_text()}",
        )
    symvers = kernel_modules.root() / "usr/src/ofa_kernel/default/Module.symvers"
    peer = {}
    if symvers.exists():
        for line in symvers.read_text().splitlines():
            crc, symbol = line.split("\t")[:2]
            peer[symbol] = crc
    target = built(name, version, kernel) / "module"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for module, facts in about(name, version)["modules"].items():
        made = {"version": version, "srcversion": crc_of(f"{module} {version}")[2:].upper(), **facts}
        if made.pop("takes_peer_symbol", False) and kernel_modules.PEER_SYMBOL in peer:
            made["modversions"] = {kernel_modules.PEER_SYMBOL: peer[kernel_modules.PEER_SYMBOL]}
            made["depends"] = [*made.get("depends", []), "ib_core"]
        if made.pop("gives_peer_symbol", False):
            made["exports"] = {kernel_modules.PEER_SYMBOL: crc_of(version)}
        (target / f"{module}.ko").write_text(json.dumps(made))


def crc_of(version: str) -> str:
    """The CRC that this version of DOCA-OFED gives its symbol."""
    return "0x" + hashlib.sha256(version.encode()).hexdigest()[:8]


def install(name: str, version: str, kernel: str) -> None:
    if not (built(name, version, kernel) / "module").exists():
        build(name, version, kernel)
    updates(kernel).mkdir(parents=True, exist_ok=True)
    for path in (built(name, version, kernel) / "module").glob("*.ko"):
        shutil.copy(path, updates(kernel) / path.name)
    if any(facts.get("gives_peer_symbol") for facts in about(name, version)["modules"].values()):
        # DOCA-OFED's own scripts leave its headers and symbols for other modules to be built against.
        home = kernel_modules.root() / "usr/src/ofa_kernel"
        folder_of_kernel = home / ARCH / kernel
        folder_of_kernel.mkdir(parents=True, exist_ok=True)
        symbol = kernel_modules.PEER_SYMBOL
        line = f"{crc_of(version)}\t{symbol}\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n"
        (folder_of_kernel / "Module.symvers").write_text(line)
        (home / "default").unlink(missing_ok=True)
        (home / "default").symlink_to(f"{ARCH}/{kernel}")


def remove(name: str, version: str) -> None:
    for kernel in (path for path in (TREE / name / version).glob("*") if path.is_dir()):
        for path in (kernel / ARCH / "module").glob("*.ko"):
            if is_installed(name, version, kernel.name):
                (updates(kernel.name) / path.name).unlink()
    shutil.rmtree(TREE / name / version, ignore_errors=True)
    if (TREE / name).is_dir() and not any((TREE / name).iterdir()):
        (TREE / name).rmdir()


def status(name: str | None) -> None:
    for module in sorted(path for path in TREE.glob("*") if name in (None, path.name)):
        for version in sorted(module.iterdir()):
            kernels = sorted(path.name for path in version.iterdir() if path.is_dir())
            if not kernels:
                print(f"{module.name}/{version.name}: added")
            for kernel in kernels:
                word = "installed" if is_installed(module.name, version.name, kernel) else "built"
                print(f"{module.name}/{version.name}, {kernel}, {ARCH}: {word}")


words = log_call()
parser = argparse.ArgumentParser(prog="dkms")
parser.add_argument("action", choices=["add", "build", "install", "remove", "autoinstall", "status"])
parser.add_argument("target", nargs="?")
parser.add_argument("-m", dest="name")
parser.add_argument("-v", dest="version")
parser.add_argument("-k", dest="kernel", default=kernel_modules.kernel())
parser.add_argument("--force", action="store_true")
parser.add_argument("--all", action="store_true")
given = parser.parse_args(words)
if given.target:
    given.name, _, given.version = given.target.partition("/")
if given.action == "status":
    status(given.name)
elif given.action == "autoinstall":
    for module in sorted(TREE.glob("*")):
        for version in sorted(module.iterdir()):
            install(module.name, version.name, given.kernel)
elif not given.name or not given.version:
    end(1, "Error! The module/version combo is needed.")
elif given.action == "add":
    add(given.name, given.version)
elif given.action == "remove":
    remove(given.name, given.version)
else:
    add(given.name, given.version)
    if given.action == "build" or given.force:
        build(given.name, given.version, given.kernel)
    if given.action == "install":
        install(given.name, given.version, given.kernel)
