"""What a GPU host is installed from, by operating system: the roles are asked, through a play that only lists."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

PLAY = Path("playbooks", "mirror_list.yml")
TITLES = {
    "Debian_12": "Debian 12",
    "Ubuntu_22": "Ubuntu 22.04",
    "Ubuntu_24": "Ubuntu 24.04",
    "RedHat_9": "RHEL 9",
}


def ask(project: Path, stack: str, stacks: Path, inventory: Path | None) -> list[dict[str, Any]]:
    """Repositories and packages by operating system; with an inventory, its variables apply.

    Shape of each: `system`, `architecture`, `distribution` (package names), `repositories`: list of `name`, `kind`
    (apt, dnf), `url`, `suite`, `key_url`, `key_sha256`, `variables` (url, key, sha256: which variable names a mirror of
    it) and `packages` (`name`, `version`, where empty is any). Raises KvlabError when the play cannot be run or fails.
    """
    ansible = Path(sys.executable).with_name("ansible-playbook")
    if not ansible.exists():
        raise KvlabError(
            "the roles are asked through ansible-playbook, which is not beside this Python; use ./lab mirror."
        )
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "systems.json")
        given = {
            "mirror_list_file": str(out),
            "mirror_list_stack": stack,
            "mirror_list_stack_dir": str(stacks.resolve()),
            **({} if inventory else {"mirror_list_hosts": "all"}),
        }
        where = str(inventory.resolve()) if inventory else "localhost,"
        command = [str(ansible), str(PLAY), "-i", where, "-e", json.dumps(given)]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode or not out.exists():
            raise KvlabError(
                f"the roles' variables cannot be read from {inventory or project}: {_why(done.stdout + done.stderr)} "
                "Correct the inventory; it needs a host in gpu_hosts."
            )
        found: list[dict[str, Any]] = json.loads(out.read_text("utf-8"))
    return found


def _why(output: str) -> str:
    """Ansible's own word for what failed."""
    lines = [line.strip() for line in output.splitlines()]
    errors = [line.partition("]: ")[2] for line in lines if line.startswith("[ERROR]: ")]
    return (errors or [line for line in lines if line] or ["Ansible said nothing."])[0][:300]


def as_json(systems: list[dict[str, Any]]) -> str:
    """The list for programs."""
    return json.dumps(systems, indent=1) + "\n"


def readable(systems: list[dict[str, Any]], sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The list as text for those who run the mirror of the site."""
    out = ["What to mirror for hosts without internet, besides the wheels of this folder.", ""]
    for system in systems:
        out += [f"{TITLES[system['system']]} ({system['architecture']})", ""]
        for repository in system["repositories"]:
            variables = repository["variables"]
            out += [
                f"  repository  {repository['url']}  ({repository['kind']}, suite {repository['suite']})",
                f"  key         {repository['key_url']}",
                f"  set         {variables['url']}, {variables['key']}, {variables['sha256']}",
                *(
                    f"    {package['name']} {package['version']}".rstrip()
                    for package in repository["packages"]
                ),
                "    and what they depend on",
                "",
            ]
        out += ["  of the distribution, with what they depend on, and the headers of the kernel that runs:"]
        out += [f"    {name}" for name in system["distribution"]] + [""]
    if not systems:
        out += ["This stack needs no GPU: nothing of NVIDIA's repositories is installed for it.", ""]
    for name, source in sources.items():
        out += [
            f"To be built from source, not in this folder: {name} {source['tag']} from {source['repository']}",
            "",
        ]
    return "\n".join(out)
