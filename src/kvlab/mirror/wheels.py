"""Wheels of a mirror: which one serves a pin, and its download by pip, which compares the hash."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from kvlab.errors import KvlabError
from kvlab.mirror.lock import Pin

# RHEL 9 has glibc 2.34, the oldest of the operating systems that the roles know. A wheel for an older glibc runs there.
GLIBC_MINORS = range(34, 4, -1)
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in GLIBC_MINORS),
    "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64",
)  # fmt: skip


def sha256(file: Path) -> str:
    """Hash of a file, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@functools.cache
def _tags(python: str) -> frozenset[tags.Tag]:
    """What a Python of this version installs on the locks' platform."""
    major, minor = map(int, python.split("."))
    compiled = tags.cpython_tags((major, minor), platforms=PLATFORMS)
    return frozenset([*compiled, *tags.compatible_tags((major, minor), f"cp{major}{minor}", PLATFORMS)])


def _serves(name: str, pin: Pin, python: str) -> bool:
    """Whether a wheel of this file name is the pin's package and version, and fits this Python."""
    try:
        package, version, _, have = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
    wanted = Version(pin.version)
    # torch 2.13.0+cpu serves where 2.13.0 is asked for, as pip has it.
    same = version == wanted or (wanted.local is None and Version(version.public) == wanted)
    return package == pin.name and same and not _tags(python).isdisjoint(have)


class Folder:
    """A flat folder of wheels; a file that is there is hashed once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._hashes: dict[str, str] = {}

    def hash_of(self, name: str) -> str:
        """Hash of one wheel."""
        if name not in self._hashes:
            self._hashes[name] = sha256(self.path / name)
        return self._hashes[name]

    def take(self, file: Path) -> None:
        """Move a wheel into the folder, in place of one of that name."""
        self._hashes.pop(file.name, None)
        file.replace(self.path / file.name)

    def serving(self, pin: Pin, python: str) -> str | None:
        """Name of the wheel that serves the pin for this Python, if it is there and has one of the pin's hashes."""
        for file in sorted(self.path.glob("*.whl")):
            if _serves(file.name, pin, python) and (not pin.hashes or self.hash_of(file.name) in pin.hashes):
                return file.name
        return None


def pip(arguments: Sequence[str], *, what: str) -> None:
    """Run this interpreter's pip.

    Raises KvlabError with pip's own last error when it fails.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        *arguments,
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = [line for line in done.stderr.splitlines() if line.strip()]
    why = next(
        (line for line in said if line.startswith("ERROR: ")), said[-1] if said else "pip said nothing"
    )
    raise KvlabError(
        f"{what} cannot be had: {why.removeprefix('ERROR: ')[:300]} Check the index or --find-links, and "
        "run this again: what is there already is kept."
    )


def download(pins: Iterable[Pin], folder: Folder, python: str, *, sources: Sequence[str] = ()) -> list[str]:
    """Have pip put the wheels of pins into the folder; returns their names. `sources`: pip's options for where to look.

    Raises KvlabError when pip cannot have one of them, or no wheel of a pin fits this Python on the locks' platform.
    """
    wanted = list(pins)
    hashed = all(pin.hashes for pin in wanted)
    what = ", ".join(f"{pin.name} {pin.version}" for pin in wanted) + f" for Python {python}"
    with tempfile.TemporaryDirectory(dir=folder.path.parent, prefix=".incoming-") as scratch:
        requirements = Path(scratch, "wanted.txt")
        requirements.write_text("".join(f"{pin.requirement()}\n" for pin in wanted), "utf-8")
        incoming = Path(scratch, "wheels")
        options = ["--no-deps", "--only-binary", ":all:", *(["--require-hashes"] if hashed else [])]
        target = ["--implementation", "cp", "--python-version", python]
        target += [word for platform in PLATFORMS for word in ("--platform", platform)]
        pip(
            ["download", *options, *target, *sources, "--dest", str(incoming), "-r", str(requirements)],
            what=what,
        )
        # Moved when they are whole, so a folder that an interrupted run left holds no half of a wheel.
        for wheel in incoming.glob("*.whl"):
            folder.take(wheel)
    names = []
    for pin in wanted:
        name = folder.serving(pin, python)
        if name is None:
            raise KvlabError(
                f"pip gave no wheel of {pin.name} {pin.version} that fits Python {python} on x86_64."
            )
        names.append(name)
    return names
