"""Runs one role on this machine, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def run(
    role: str, folder: Path, variables: dict[str, Any], hosts: str, *more: str
) -> subprocess.CompletedProcess[str]:
    """Run the role for hosts ("one,two") that are all this machine; `folder` holds what Ansible writes."""
    content = [{"hosts": "all", "gather_facts": False, "roles": [f"kvlab.lab.{role}"], "vars": variables}]
    (folder / "play.yml").write_text(json.dumps(content))
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        f"{hosts},",
        "-c",
        "local",
        *more,
    ]
    command += ["-e", f"ansible_python_interpreter={sys.executable}", str(folder / "play.yml")]
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".lab/collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
