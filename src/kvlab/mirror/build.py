"""Makes a mirror: wheels of a stack, of the controller and of kvlab, and the list of packages."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from kvlab import __version__
from kvlab.errors import KvlabError
from kvlab.mirror import lock, manifest, systems
from kvlab.mirror.lock import Pin
from kvlab.mirror.wheels import Folder, download, pip, sha256
from kvlab.stacks import Stack

# Wheels for one call of pip: what an interruption costs, against half a second for each call.
AT_ONCE = 6

README = """A mirror for a lab without internet: stack {stack}, Python {python}, x86_64; made by kvlab {version}.

wheels/        what `inference_stack_find_links` and `kvlab_tools_find_links` name
controller/    hashes of what the controller's own environment is made of
packages.txt   repositories, packages and keys to mirror besides (packages.json for programs)
manifest.json  size and sha256 of each file; compare by: kvlab mirror --verify FOLDER

docs/air-gapped.md of kvlab says how an inventory uses it.
"""


@dataclasses.dataclass(frozen=True)
class Order:
    """What is asked for.

    `project`: the checkout; `sources`: pip's options for where to look; `torch_index`: empty for none.
    """

    stack: Stack
    project: Path
    python: tuple[str, ...]
    sources: tuple[str, ...] = ()
    torch_index: str = ""
    inventory: Path | None = None


def make(order: Order, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Make or complete the mirror in `folder`; returns its manifest. `tell` gets a line for each step.

    Raises KvlabError when something cannot be had; what is there already stays for the next run.
    """
    if not (order.project / "pyproject.toml").exists() or not (order.project / systems.PLAY).exists():
        raise KvlabError(f"{order.project} is no checkout of kvlab; name one by --project.")
    if folder.exists() and any(folder.iterdir()) and not (folder / "wheels").is_dir():
        raise KvlabError(f"{folder} holds something else than a mirror; name an empty folder by -o.")
    wheels = Folder(_folder(folder / "wheels"))
    stack = yaml.safe_load(order.stack.file.read_text("utf-8"))
    found = _systems(order, tell)
    pinned: set[str] = set()
    for python in order.python:
        pins = [*lock.read(order.stack.lock(python)), *_replaced(stack, python)]
        pinned |= {f"wheels/{name}" for name in _fetch(pins, wheels, python, order.sources, tell)}
        if order.stack.device == "cpu":
            _torch(order, wheels, python, tell)
        tools = _controller_lock(order, folder, python, tell)
        _fetch(lock.read(tools), wheels, python, order.sources, tell)
    _own_wheel(order.project, wheels.path, tell)
    sources = stack.get("source_builds") or {}
    (folder / "packages.json").write_text(systems.as_json(found), "utf-8")
    (folder / "packages.txt").write_text(systems.readable(found, sources), "utf-8")
    text = README.format(version=__version__, stack=order.stack.name, python=", ".join(order.python))
    (folder / "README.txt").write_text(text, "utf-8")
    tell("hashing the folder")
    content = {
        "kvlab": __version__,
        "stack": order.stack.name,
        "python": list(order.python),
        "locks": {order.stack.lock(python).name: sha256(order.stack.lock(python)) for python in order.python},
        "systems": found,
        "sources": {
            name: {"tag": str(one["tag"]), "repository": one["repository"]} for name, one in sources.items()
        },
    }
    manifest.write(folder, content, pinned)
    return manifest.read(folder)


def _folder(path: Path) -> Path:
    """The folder, made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KvlabError(f"{path} cannot be made ({error.strerror}); correct -o.") from None
    for left in path.parent.glob(".incoming-*"):
        shutil.rmtree(left)
    return path


def _systems(order: Order, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Repositories and packages of GPU hosts; none for a stack of the CPU."""
    if order.stack.device != "cuda":
        return []
    tell("asking the roles for repositories and packages")
    return systems.ask(order.project, order.stack.name, order.stack.file.parent, order.inventory)


def _replaced(stack: dict[str, Any], python: str) -> list[Pin]:
    """Wheels out of which single files are taken (replaced_files of a stack file)."""
    pins = {
        Pin(
            one["from"]["distribution"], str(one["from"]["version"]), frozenset([one["wheel_sha256"][python]])
        )
        for one in stack.get("replaced_files") or []
    }
    return sorted(pins, key=lambda pin: (pin.name, pin.version))


def _fetch(
    pins: Sequence[Pin], wheels: Folder, python: str, sources: Sequence[str], tell: Callable[[str], None]
) -> list[str]:
    """Names of the wheels of all pins, of which those that are missing were downloaded."""
    missing = [pin for pin in pins if wheels.serving(pin, python) is None]
    tell(f"Python {python}: {len(pins) - len(missing)} of {len(pins)} wheels are there")
    for start in range(0, len(missing), AT_ONCE):
        got = download(missing[start : start + AT_ONCE], wheels, python, sources=sources)
        size = sum((wheels.path / name).stat().st_size for name in got)
        tell(f"[{start + len(got)}/{len(missing)}] {', '.join(got)} ({size / 1e6:.1f} MB)")
    return [name for pin in pins if (name := wheels.serving(pin, python))]


def _torch(order: Order, wheels: Folder, python: str, tell: Callable[[str], None]) -> None:
    """torch of a CPU stack, which no lock pins: from the index of CPU builds, else as pip finds it."""
    pin = Pin("torch", order.stack.torch_version)
    if wheels.serving(pin, python):
        return
    if order.torch_index:
        try:
            names = download([pin], wheels, python, sources=["--index-url", order.torch_index])
        except KvlabError as error:
            tell(f"no CPU build of torch from {order.torch_index}, taking the one that pip finds ({error})")
        else:
            tell(names[0])
            return
    tell(download([pin], wheels, python, sources=order.sources)[0])


def _controller_lock(order: Order, folder: Path, python: str, tell: Callable[[str], None]) -> Path:
    """The controller's requirements with versions and hashes; those of an earlier run stay where they still fit."""
    out = _folder(folder / "controller") / f"requirements-py{python}.lock"
    tell(f"resolving the controller's requirements for Python {python}")
    lines = (order.project / "requirements.txt").read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "requirements.in")
        wanted.write_text(
            "\n".join([*(line for line in lines if not line.startswith("-e")), "pip", "wheel"]), "utf-8"
        )
        command = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--generate-hashes",
                   "--no-annotate", "--no-header", "--only-binary", ":all:", "--python-version", python,
                   "--python-platform", "x86_64-manylinux_2_28", *order.sources, str(wanted),
                   "--output-file", str(out)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KvlabError(
            f"the controller's requirements do not resolve for Python {python}: {' '.join(done.stderr.split())[:300]} "
            "Check the index or --find-links."
        )
    return out


def _own_wheel(project: Path, wheels: Path, tell: Callable[[str], None]) -> None:
    """kvlab's own wheel, of the checkout as it is."""
    tell("building kvlab's own wheel")
    with tempfile.TemporaryDirectory() as scratch:
        # Otherwise setuptools builds in the checkout, and a module that was removed there would come along.
        Path(scratch, "setup.cfg").write_text(f"[build]\nbuild_base = {scratch}/build\n", "utf-8")
        os.environ["DIST_EXTRA_CONFIG"] = f"{scratch}/setup.cfg"
        try:
            options = ["--no-deps", "--no-build-isolation", "--wheel-dir", scratch]
            pip(["wheel", *options, str(project)], what="kvlab's own wheel")
        finally:
            del os.environ["DIST_EXTRA_CONFIG"]
        for old in wheels.glob("kvlab-*.whl"):
            old.unlink()
        for new in Path(scratch).glob("kvlab-*.whl"):
            shutil.move(new, wheels / new.name)
