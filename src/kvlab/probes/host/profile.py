"""The files of the running profile; the controller lints them and drops their text. Job: {"profile_dir": path}."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from kvlab.probes.host.tools import text

FILES = ("lmcache.yaml", "cufile.json", "lmcache.args", "vllm.args", "env")


def collect(job: Any) -> dict[str, Any]:
    """profile.json, and text and mode of each configuration file; the file of secrets is not read."""
    folder = Path(job["profile_dir"])
    found = {}
    for name in FILES:
        content = text(folder / name)
        if content is not None:
            found[name] = {"text": content, "mode": stat.S_IMODE((folder / name).stat().st_mode)}
    secret = text(folder / "secret.env") is not None
    return {
        "profile": json.loads(text(folder / "profile.json") or "{}"),
        "files": found,
        "secret_names": _names(folder / "secret.env") if secret else [],
    }


def _names(file: Path) -> list[str]:
    """The names of the variables of a secret file; not their values."""
    return [line.partition("=")[0].strip() for line in (text(file) or "").splitlines() if "=" in line]
