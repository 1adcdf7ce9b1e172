"""Stacks: one YAML file under stacks/ for each tested set of versions, and the lock files made from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.kvcache.files import read_text
from kvlab.kvcache.lint import document
from kvlab.kvcache.versions import release

PROOFS = ("resolved", "imported", "ran-simulated", "ran-on-gpu")
"""How far a stack has been proven, weakest first."""

FIRMWARE = ("bios", "nics", "gpus")
"""Whose firmware a stack can accept: by a product's name, a NIC's PSID, a GPU's name."""

_TEXT, _LIST, _MAPPING = (str, "a text"), (list, "a list"), (dict, "a mapping")
_KINDS: Mapping[str, tuple[type, str]] = {
    "name": _TEXT, "summary": _TEXT, "proven": _TEXT, "python": _LIST, "device": _TEXT, "torch": _MAPPING,
    "packages": _MAPPING, "left_out": _MAPPING, "overrides": _MAPPING,
}  # fmt: skip


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
    firmware: Mapping[str, Mapping[str, tuple[str, ...]]]
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
    """Names of the stacks in a folder.

    Raises KvlabError when the folder holds none.
    """
    names = sorted(p.stem for p in folder.glob("*.yml"))
    if not names:
        raise KvlabError(f"{folder} holds no stack files (*.yml); name the folder by --stacks.")
    return names


def load(folder: Path, name: str) -> Stack:
    """Read stacks/<name>.yml.

    Raises KvlabError when there is no such stack, or its file lacks a field or holds another kind of value there.
    """
    file = folder / f"{name}.yml"
    if name not in known(folder):
        raise KvlabError(f"there is no stack named {name!r}; choose one of: {', '.join(known(folder))}")
    text, _ = read_text(str(file))
    data = _checked(file, document.read(text, str(file)))
    return Stack(
        name=data["name"],
        summary=data["summary"],
        proven=data["proven"],
        python=tuple(data["python"]),
        device=data["device"],
        torch_version=data["torch"]["version"],
        packages={
            key: Package(p["distribution"], p["version"], p.get("note", ""))
            for key, p in data["packages"].items()
        },
        additional=tuple(data.get("additional", ())),
        left_out=data["left_out"],
        overrides={key: str(value) for key, value in data["overrides"].items()},
        firmware={
            part: {model: tuple(versions) for model, versions in models.items()}
            for part, models in data.get("firmware", {}).items()
        },
        file=file,
    )


def _versions(value: object) -> bool:
    """Whether this is a list of texts, and not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _checked(file: Path, doc: document.Document) -> dict[str, Any]:
    """The values of a stack file, of which every field is there and of its kind."""
    data, whole = doc.values, "see stacks/current-cpu.yml for a whole one"
    if doc.twice:
        raise KvlabError(f"{file} gives {doc.twice[0][0]} twice; remove one of the two")
    missing = [key for key in _KINDS if key not in data]
    if missing:
        raise KvlabError(f"{file} lacks {', '.join(missing)}; {whole}")
    for key, (kind, word) in {**_KINDS, "additional": _LIST, "firmware": _MAPPING}.items():
        if key in data and not isinstance(data[key], kind):
            raise KvlabError(f"{file}: {key} is not {word}; {whole}")
    for part, models in data.get("firmware", {}).items():
        if part not in FIRMWARE or not isinstance(models, dict) or not all(map(_versions, models.values())):
            raise KvlabError(
                f"{file}: firmware: {part} must be one of {', '.join(FIRMWARE)} with a list of "
                "versions, each in quotes, by model."
            )
    # YAML makes a number of 3.10 or 1.10, which is another version than was written.
    if not all(isinstance(version, str) for version in data["python"]):
        raise KvlabError(f"{file}: the versions under python must stand in quotes; {whole}")
    if data["proven"] not in PROOFS:
        raise KvlabError(f"{file} says proven: {data['proven']}; it must be one of {', '.join(PROOFS)}")
    for key, package in {"torch": data["torch"] | {"distribution": "torch"}, **data["packages"]}.items():
        version = package.get("version") if isinstance(package, dict) else None
        if not isinstance(version, str) or not isinstance(package.get("distribution"), str):
            raise KvlabError(f"{file}: {key} needs its distribution and its version, both as text; {whole}")
        try:
            release(version)
        except KvlabError as error:
            raise KvlabError(f"{file}: {key}: {error}") from None
    return data
