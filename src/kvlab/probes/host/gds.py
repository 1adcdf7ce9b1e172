"""GPUDirect Storage: cufile.json, gdscheck and nvidia-fs; topic `gds` (see checks.gds).

Job: {"cufile": path of cufile.json, "cufile_log": path, "path": "object"|"file", "profile_dir": of profile.json}.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kvlab.hostparsers import gdscheck as parser
from kvlab.probes.host import network
from kvlab.probes.host.driver import origins
from kvlab.probes.host.tools import dpkg, root, said, text

GDSCHECK = ("/usr/local/cuda/gds/tools/gdscheck", "/usr/local/cuda/gds/tools/gdscheck.py", "gdscheck")
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def collect(job: Any) -> dict[str, Any]:
    """Facts about GDS on this host."""
    proc = root(job, "proc")
    packages = dpkg("nvidia-fs-dkms", "nvidia-fs")
    version = (said("modinfo", "-F", "version", "nvidia_fs") or "").strip() or next(
        iter(packages.values()), ""
    )
    origin = next((one["origin"] for one in origins(packages).values()), "")
    return {
        "path": job.get("path", "object"),
        "cufile": properties(text(Path(job["cufile"])) if job.get("cufile") else None),
        "addresses": [a.partition("/")[0] for found in network.addresses().values() for a in found],
        "gdscheck": gdscheck(next((out for tool in GDSCHECK if (out := said(tool, "-p", timeout_s=8))), None)),
        "log": [line for line in (text(Path(job.get("cufile_log") or "cufile.log")) or "").splitlines()
                if "compat" in line.lower()][-20:],
        "nvidia_fs": {"version": version, "origin": origin} if version else None,
        "kernel": text(Path("/proc/sys/kernel/osrelease")) or "",
        "modules": [line.split()[0] for line in (text(proc / "modules") or "").splitlines() if line.split()],
        "registrations": registrations(text(Path(job.get("profile_dir") or "/nonexistent", "profile.json"))),
    }  # fmt: skip


def properties(document: str | None) -> dict[str, Any]:
    """The section `properties` of a cufile.json, whose comments are taken out; empty when there is none."""
    if document is None:
        return {}
    found = json.loads(_COMMENT.sub("", document)).get("properties", {})
    return found if isinstance(found, dict) else {}


def gdscheck(output: str | None) -> dict[str, str] | None:
    """`gdscheck -p` as {what: Supported or Unsupported}, and "driver": nvidia-fs's version or nothing."""
    if output is None:
        return None
    found = parser.parse(output)
    return {**found["support"], "driver": found["versions"].get("nvidia_fs", "")}


def registrations(profile: str | None) -> list[int]:
    """The buffers that an accelerated profile registers with the NIC, in bytes."""
    about = json.loads(profile) if profile else {}
    accelerated = about.get("engine") == "dell" and about.get("buffer_bytes")
    return [int(about["buffer_bytes"])] if accelerated else []
