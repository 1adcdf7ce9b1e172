"""Ansible's own check of modules: documentation, examples and argument specs agree, and the documents are complete.

It is the sanity test `validate-modules`, whose program comes with ansible-core. `ansible-test sanity` runs it in an
environment that it downloads; this runs it in the linters' own. Exit 1 with one line for each complaint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ansible_test
import yaml

ROOT = Path(__file__).resolve().parents[1]
VERSION = str(yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["version"])
PROGRAM = Path(ansible_test.__path__[0], "_util/controller/sanity/validate-modules/validate.py")

NOT_OURS = frozenset({"missing-gplv3-license"})
"""Rules of Ansible's own repository: this project's licence is Apache-2.0."""

KNOWN = frozenset({("plugins/modules/replica_node.py", "use-run-command-not-popen")})
"""run_command waits for the end of what it starts; the launcher of a node goes on after the module."""


def complaints() -> list[str]:
    """Each as path, rule and message."""
    collections = ROOT / ".lab/collections"
    modules = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "plugins/modules").glob("*.py"))
    command = [sys.executable, str(PROGRAM), "--format", "json", "--arg-spec"]
    command += ["--collection", "ansible_collections/kvlab/lab", "--collection-version", VERSION, *modules]
    environment = {
        **os.environ,
        "PYTHONPATH": str(collections),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    try:
        reports = json.loads(run.stdout)
    except ValueError:
        return [f"validate-modules itself failed: {run.stderr.strip() or run.stdout.strip()}"]
    return [
        f"{path}: {found['code']}: {found['msg']}"
        for path, report in reports.items()
        for found in report["errors"]
        if found["code"] not in NOT_OURS and (path, found["code"]) not in KNOWN
    ]


if __name__ == "__main__":
    found = complaints()
    print("\n".join(found) or "All modules are valid")
    sys.exit(bool(found))
