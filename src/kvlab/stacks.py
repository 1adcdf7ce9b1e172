"""Stacks: one YAML file under stacks/ for each tested set of versions, and the lock files made from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kvlab.errors import KvlabError

PROOFS = ("resolved", "imported", "ran-simulated", "ran-on-gpu")
"""How far a stack has been proven, weakest first."""

_REQUIRED = ("name", "summary", "proven", "python", "device", "torch", "packages", "left_out", "overrides")


@dataclasses.dataclass(frozen=True)
class Package:
    """One package that the stack is about."""

    distribution: str
    version: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Stack:
    """A set of versions that work together, as its file says."""

    name: str
    summary: str
    proven: str
    python: tuple[str, ...]
    device: str
    torch_version: str
    packages: Mapping[str, Package]
    additional: tuple[str, ...]
    left_out: Mapping[str, str]
    overrides: Mapping[str, str]
    file: Path

    def lock(self, python: str) -> Path:
        """The lock file for one Python version such as "3.11"; it need not exist."""
        return self.file.with_name(f"{self.name}-py{python}.lock")

    def requirements_in(self) -> str:
        """The direct requirements, one a line, for a resolver."""
        pins = [f"{p.distribution}=={p.version}" for p in self.packages.values()]
        return "\n".join([*pins, *self.additional]) + "\n"

    def overrides_txt(self) -> str:
        """Resolver overrides: what is left out (by a marker that never holds) and what is forced."""
        out = [f"{name} ; sys_platform == 'never'" for name in self.left_out]
        forced = [f"{name}=={version}" for name, version in self.overrides.items()]
        return "\n".join([*out, *forced]) + "\n"


def known(folder: Path) -> list[str]:
    """Names of the stacks in a folder."""
    return sorted(p.stem for p in folder.glob("*.yml"))


def load(folder: Path, name: str) -> Stack:
    """Read stacks/<name>.yml.

    Raises KvlabError when there is no such stack or its file lacks a field.
    """
    file = folder / f"{name}.yml"
    if not file.is_file():
        raise KvlabError(f"there is no stack named {name!r}; choose one of: {', '.join(known(folder))}")
    try:
        data: dict[str, Any] = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise KvlabError(f"{file} is not YAML: {error}") from error
    missing = [key for key in _REQUIRED if key not in data]
    if missing:
        raise KvlabError(f"{file} lacks {', '.join(missing)}; see stacks/current-cpu.yml for a whole one")
    if data["proven"] not in PROOFS:
        raise KvlabError(f"{file} says proven: {data['proven']}; it must be one of {', '.join(PROOFS)}")
    return Stack(
        name=data["name"],
        summary=data["summary"],
        proven=data["proven"],
        python=tuple(data["python"]),
        device=data["device"],
        torch_version=data["torch"]["version"],
        packages={
            key: Package(p["distribution"], str(p["version"]), p.get("note", ""))
            for key, p in data["packages"].items()
        },
        additional=tuple(data.get("additional", ())),
        left_out=data["left_out"],
        overrides={key: str(value) for key, value in data["overrides"].items()},
        file=file,
    )
