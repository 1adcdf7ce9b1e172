"""Which libcuobjclient.so.1 a process gets, and whether it is the stand-in by the mark in the file itself.

Job: {} or {"library": "libcuobjclient.so.1"}.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from kvlab.probes import Facts, Job, document, elf, main

STAND_IN_OWNER = "kvlab"  # owner of the ELF note that native/cuobject puts into its library


def run(job: Job) -> Facts:
    """Facts about the library that this process's loader finds."""
    facts = collect(job.get("library", "libcuobjclient.so.1"))
    return document(
        "cuobject_library", facts["simulated"], **{k: v for k, v in facts.items() if k != "simulated"}
    )


def collect(name: str) -> Facts:
    """Load `name` and say what it is; `simulated` is None when it cannot be loaded."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return {"library": name, "path": None, "error": str(error), "simulated": None, "notes": []}
    path = _mapped(name)
    notes = elf.read(path).notes
    return {
        "library": name,
        "path": str(path),
        "error": None,
        "simulated": any(n.owner == STAND_IN_OWNER for n in notes),
        "notes": [
            {"owner": n.owner, "type": n.type, "text": n.desc.rstrip(b"\0").decode(errors="replace")}
            for n in notes
            if n.owner not in ("GNU", "")
        ],
    }


def _mapped(name: str) -> Path:
    """The file behind a loaded library; the loader does not say it, the kernel does."""
    stem = Path(name).name.split(".so")[0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith(f"{stem}.so"):
            return Path(path)
    raise LookupError(f"{name} was loaded but is not in /proc/self/maps")


if __name__ == "__main__":
    main(run)
