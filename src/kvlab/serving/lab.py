"""What a lab is and where its parts are: `<state>/etc/lab.json`, or /etc/kvlab/lab.json on a GPU host.

Written by the playbook `serving.yml`.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

LAB_ENV = "KVLAB_LAB_FILE"
"""Environment variable that names another lab.json than the default."""

DEFAULT = Path(".lab/etc/lab.json")
HOST = Path("/etc/kvlab/lab.json")
"""The lab that a GPU host is part of; the one of the current folder goes before it."""


@dataclasses.dataclass(frozen=True)
class Lab:
    """A lab that was brought up. `data` is lab.json as read (no secrets in it)."""

    file: Path
    data: Mapping[str, Any]

    @property
    def state_dir(self) -> Path:
        return Path(self.data["state_dir"])

    @property
    def simulated(self) -> bool:
        return bool(self.data["simulated"])

    @property
    def profiles(self) -> Mapping[str, Mapping[str, Any]]:
        profiles: Mapping[str, Mapping[str, Any]] = self.data["profiles"]
        return profiles

    @property
    def configured_profile(self) -> str:
        """The profile that the inventory asks for (`serving_active_profile`)."""
        return str(self.data["active_profile"])


def find() -> Lab | None:
    """The lab of this place, or None where none was brought up."""
    return load() if _default().exists() else None


def load(file: Path | None = None) -> Lab:
    """Read the lab's description.

    Raises KvlabError when the lab was never brought up or the file is damaged.
    """
    path = file or _default()
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise KvlabError(f"there is no lab here ({path} does not exist); run ./lab up first") from error
    except (OSError, ValueError) as error:
        raise KvlabError(f"cannot read {path}: {error}; run ./lab up to write it anew") from error
    return Lab(path, data)


def _default() -> Path:
    named = os.environ.get(LAB_ENV)
    if named:
        return Path(named)
    return HOST if HOST.exists() and not DEFAULT.exists() else DEFAULT
