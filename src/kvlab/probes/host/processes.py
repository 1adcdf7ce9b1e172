"""The serving processes as the kernel has them: limits, libraries, environment; topic `processes` (see checks.gds).

Job: {"expected": [role, ...], "registers": bytes that a process registers, "nofile_needed": files, "pids": [id,
...] to look at these alone}.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Any

from kvlab.probes.host.tools import names, root

ROLES = (
    ("vllm", re.compile(r"vllm\.entrypoints|/vllm serve|VLLM::")),
    (
        "lmcache",
        re.compile(r"lmcache\.cli\.main server|/lmcache server|lmcache\.v1\.(?:multiprocess|server)"),
    ),
)
LIBRARIES = ("libcufile.so", "libcufile_rdma.so", "libcuobjclient.so", "libibverbs.so", "libmlx5.so", "libcuda.so",
             "libcudart.so", "libplugin_OBJ.so")  # fmt: skip
ENVIRONMENT = re.compile(
    r"^(?:PYTHONHASHSEED|PYTORCH_CUDA_ALLOC_CONF|LD_PRELOAD|CUFILE_ENV_PATH_JSON|CUOBJ_ENV_PATH_JSON|"
    r"LMCACHE_CONFIG_FILE|UCX_NET_DEVICES|UCX_TLS|UCX_IB_GID_INDEX|NCCL_IB_GID_INDEX|UCX_IB_GPU_DIRECT_RDMA|"
    r"AWS_(?:REQUEST|RESPONSE)_CHECKSUM_\w+)$"
)
"""Names only from this list leave the host: an environment holds secrets."""

_LIMITS = {"memlock": "Max locked memory", "nofile": "Max open files"}
_DESCRIPTORS = b"cuFileRDMADescStrGet"
_IN_NAME = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)*)$")


def collect(job: Any) -> dict[str, Any]:
    """Facts about every serving process of this host."""
    found = serving(root(job, "proc"), job.get("pids"))
    for process in found:
        process["registers"] = int(job.get("registers") or 0) if process["registering"] else 0
    facts: dict[str, Any] = {"expected": list(job.get("expected") or ()), "processes": found}
    if job.get("nofile_needed"):
        facts["nofile_needed"] = int(job["nofile_needed"])
    return facts


def serving(proc: Path, only: list[int] | None = None) -> list[dict[str, Any]]:
    """Each serving process; one that ends meanwhile is left out."""
    found = []
    for pid in sorted((name for name in names(proc) if name.isdigit()), key=int):
        try:
            command = (proc / pid / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            role = next((name for name, pattern in ROLES if pattern.search(command)), None)
            if role is None or (only is not None and int(pid) not in only):
                continue
            libraries = loaded((proc / pid / "maps").read_text(errors="replace"))
            found.append(
                {
                    "pid": int(pid),
                    "role": role,
                    "limits": limits((proc / pid / "limits").read_text()),
                    "environment": environment(_block(proc, pid)),
                    "libraries": libraries,
                    "registering": any(one["name"].startswith("libcuobjclient") for one in libraries),
                }
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _block(proc: Path, pid: str) -> bytes:
    """A process's environment; its parent's where it wrote its title over its own, as vLLM's engine does."""
    block = b""
    for _ in range(3):
        block = (proc / pid / "environ").read_bytes()
        if not block.startswith(b"\0"):
            return block
        pid = (proc / pid / "stat").read_text().rpartition(")")[2].split()[1]
        if pid in ("0", "1"):
            break
    return block


def limits(table: str) -> dict[str, int | None]:
    """The soft limits of /proc/PID/limits; None for unlimited."""
    found: dict[str, int | None] = {}
    for name, label in _LIMITS.items():
        line = next((line for line in table.splitlines() if line.startswith(label)), None)
        if line is not None:
            word = line[len(label) :].split()[0]
            found[name] = None if word == "unlimited" else int(word)
    return found


def environment(block: bytes) -> dict[str, str]:
    """The allowed variables of /proc/PID/environ."""
    pairs = (one.decode(errors="replace").partition("=") for one in block.split(b"\0"))
    return {name: value for name, _, value in pairs if ENVIRONMENT.match(name)}


def loaded(maps: str) -> list[dict[str, Any]]:
    """The libraries of interest in /proc/PID/maps, each file once."""
    paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/") and ".so" in line}
    found = []
    for path in sorted(paths):
        name = Path(path).name
        stem = next((known for known in LIBRARIES if name.startswith(known)), None)
        if stem:
            cufile = stem == "libcufile.so"
            found.append(
                {
                    "name": name,
                    "path": path,
                    "version": version(Path(path)),
                    "rdma_descriptors": has_descriptors(Path(path)) if cufile else None,
                }
            )
    return found


def version(path: Path) -> str | None:
    """A library's version by its file name, else by the wheel it is from."""
    match = _IN_NAME.search(path.resolve().name if path.exists() else path.name)
    if match:
        return match[1]
    for folder in path.parents:
        if folder.name == "site-packages":
            wheel = next(iter(sorted(folder.glob("nvidia_cufile-*.dist-info"))), None)
            return (
                wheel.name.removesuffix(".dist-info").split("-")[1]
                if wheel and "cufile" in path.name
                else None
            )
    return None


def has_descriptors(path: Path) -> bool | None:
    """Whether the library exports what cuObject is built on; None when the file cannot be read."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_DESCRIPTORS) >= 0
    except (OSError, ValueError):
        return None
