"""Probes for another interpreter, here or on a host: their sources travel on stdin, and nothing is written there.

`python -c BOOT` reads one line, {"modules": {name: source}, "entry": "package.module", "job": {...}}, serves imports
of those modules from memory, and prints what the entry's `run(job)` returns as JSON, line by line where it is a
generator.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PARSERS = ("apt_policy", "dma_buf", "gdscheck", "gpu_topology", "mlxconfig_state", "qos_state", "rdma_sysfs")
"""Those of kvlab.hostparsers that host probes import; the others need Ansible."""

PROBES = ("elf", "obj_plugin", "serving_stack", "serving_env", "lmcache_mp", "shipping", "sampler")

BOOT = """
import importlib, importlib.abc, importlib.util, json, os, sys
bundle = json.loads(sys.stdin.readline())
class Memory(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in bundle["modules"]:
            package = any(other.startswith(name + ".") for other in bundle["modules"])
            return importlib.util.spec_from_loader(name, self, is_package=package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        source = bundle["modules"][module.__name__]
        exec(compile(source, "<" + module.__name__ + ">", "exec"), module.__dict__)
sys.meta_path.insert(0, Memory())
sys.kvlab_bundle = bundle["modules"]
sys.stdout.flush()
real = os.dup(1)
os.dup2(2, 1)
answer = importlib.import_module(bundle["entry"]).run(bundle["job"])
with os.fdopen(real, "w") as out:
    for one in answer if hasattr(answer, "__next__") else [answer]:
        out.write(json.dumps(one) + "\\n")
        out.flush()
"""


def modules() -> dict[str, str]:
    """Sources of the probes by module name: of this process's own bundle on a host, else from the package's files."""
    carried: dict[str, str] | None = getattr(sys, "kvlab_bundle", None)
    if carried is not None:
        return carried
    package = Path(__file__).resolve().parents[1]
    files = {"kvlab": "__init__.py", "kvlab.errors": "errors.py", "kvlab.probes": "probes/__init__.py"}
    files |= {f"kvlab.probes.{name}": f"probes/{name}.py" for name in PROBES}
    files |= {f"kvlab.hostparsers.{name}": f"hostparsers/{name}.py" for name in PARSERS}
    for file in sorted((package / "probes/host").glob("*.py")):
        name = "kvlab.probes.host" if file.stem == "__init__" else f"kvlab.probes.host.{file.stem}"
        files[name] = f"probes/host/{file.name}"
    return {"kvlab.hostparsers": ""} | {name: (package / path).read_text() for name, path in files.items()}


def package(entry: str, job: Any) -> str:
    """The line for BOOT's stdin."""
    return json.dumps({"modules": modules(), "entry": entry, "job": job}) + os.linesep
