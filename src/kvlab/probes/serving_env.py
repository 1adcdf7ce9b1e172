"""The packages of a serving environment and how they fit; runs in it. Topic `venv`, see checks.venv.

Job: {"left_out": [package, ...], "locked": {package: version}, "device": "cuda"|"cpu", "engine":
"dell"|"standard"|"none"}. Modules are looked for, not imported: an import of vLLM takes longer than a probe may.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import elf, obj_plugin, serving_stack

CUOBJECT = "libcuobjclient.so.1"
_CUDA_WHEEL = re.compile(r"-cu(\d\d)$")


def run(job: Any) -> dict[str, Any]:
    """Facts about this interpreter's environment."""
    versions = installed()
    plugin = obj_plugin.find()
    error = obj_plugin.load_error(plugin) if plugin else None
    found = serving_stack.collect(quick=True)
    return {
        "python": sys.version.split()[0],
        "versions": versions,
        # The plugin has its own check, which names the library.
        "failures": [line for line in found["failures"] if "OBJ plugin" not in line],
        "pip_check": unmet(versions),
        "left_out": list(job.get("left_out") or ()),
        "locked": dict(job.get("locked") or {}),
        "unresolved": unresolved(plugin),
        "cuda_major": cuda_majors(versions) if job.get("device") == "cuda" else {},
        "extension_error": serving_stack.extension_failure("lmcache.c_ops")
        if job.get("device") == "cuda"
        else None,
        "obj_plugin": str(plugin) if plugin else None,
        "plugin_needs": list(elf.read(plugin).needed) if plugin else [],
        "plugin_error": error,
        # Only NIXL's agent can be asked, which a round trip does; the loader's word stands for it here.
        "plugin_mem_types": None,
        "cuobject": cuobject(),
        "ucx_modules": ucx_modules(plugin),
        "device": job.get("device", "cpu"),
        "engine": job.get("engine", "none"),
    }


def installed() -> dict[str, str]:
    """Every distribution and its version, names in pip's normal form."""
    found = {}
    for one in importlib.metadata.distributions():
        name = one.metadata["Name"]
        if name:
            found[name.lower().replace("_", "-").replace(".", "-")] = one.version
    return found


def unmet(versions: dict[str, str]) -> list[str] | None:
    """What `pip check` would say: requirements that are missing or have another version; None without `packaging`."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:
        return None
    lines = []
    for one in importlib.metadata.distributions():
        for text in one.requires or ():
            try:
                wanted = Requirement(text)
            except InvalidRequirement:
                continue
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                continue
            have = versions.get(wanted.name.lower().replace("_", "-").replace(".", "-"))
            who = f"{one.metadata['Name']} {one.version}"
            if have is None:
                lines.append(f"{who} requires {wanted.name}, which is not installed.")
            elif wanted.specifier and not wanted.specifier.contains(have, prereleases=True):
                lines.append(f"{who} has requirement {text}, but you have {wanted.name} {have}.")
    return sorted(lines)


def unresolved(plugin: Path | None) -> list[dict[str, str]]:
    """CUDA libraries that NIXL's plugins need and nothing supplies: not the wheels, not the loader."""
    if plugin is None:
        return []
    shipped = {file.name for folder in map(Path, sys.path) for file in folder.glob("nvidia/**/lib*.so*")}
    missing = []
    for file in sorted(plugin.parent.glob("libplugin_*.so")):
        with contextlib.suppress(KvlabError):
            for name in elf.read(file).needed:
                if name.startswith("libcudart") and name not in shipped and obj_plugin.load_error(Path(name)):
                    missing.append({"file": file.name, "library": name})
    return missing


def cuda_majors(versions: dict[str, str]) -> dict[str, int]:
    """The CUDA major release that torch and NIXL's back end are built for."""
    found = {}
    torch = importlib.util.find_spec("torch")
    if torch and torch.origin:
        about = Path(torch.origin).with_name("version.py")
        match = re.search(r"^cuda.*= '(\d+)", about.read_text() if about.exists() else "", re.MULTILINE)
        if match:
            found["torch"] = int(match[1])
    for name in versions:
        match = _CUDA_WHEEL.search(name)
        if match and name.startswith("nixl"):
            found[name] = int(match[1])
    return found


def cuobject() -> dict[str, Any]:
    """Whether the loader finds the cuObject client, and in which file."""
    error = obj_plugin.load_error(Path(CUOBJECT))
    path = None
    if error is None:
        maps = Path("/proc/self/maps").read_text()
        path = next(
            (p for line in maps.splitlines() if "libcuobjclient" in (p := line.split(maxsplit=5)[-1])), None
        )
    return {"path": path, "error": error, "version": Path(path).resolve().name if path else None}


def ucx_modules(plugin: Path | None) -> list[str]:
    """UCX's transport modules that the wheel brings."""
    if plugin is None:
        return []
    return sorted({file.name for file in plugin.parents[2].glob("*nixl*/ucx/libuct_*.so*")})
