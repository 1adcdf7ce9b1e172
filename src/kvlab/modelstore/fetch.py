"""Brings a folder to what a listing says. A file appears under its name only when its hash is right."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.modelstore.listing import NAME, File, Listing
from kvlab.modelstore.sources import Source, SourceError

MARK = ".kvlab-model.json"
"""What was verified: by path, size and time of change. To hash tens of gigabytes takes minutes, in each run."""

PART = ".kvlab-part"
ATTEMPTS = 5
"""In a row without a byte."""


@dataclasses.dataclass
class Done:
    """What a run did: files that came, and bytes that were read of the source."""

    files: list[str] = dataclasses.field(default_factory=list)
    bytes: int = 0


def listing_of(source: Source) -> bytes:
    """The document of the source.

    Raises KvlabError when it does not come.
    """
    content = b""
    for attempt in range(ATTEMPTS):
        try:
            with source.open(NAME, 0) as (_, chunks):
                content = b"".join(chunks)
            return content
        except SourceError as error:
            _wait(attempt, str(error))
    return content


def missing(listing: Listing, folder: Path, *, hashed: bool = False) -> list[str]:
    """Files that are not there, or not as listed; with `hashed` every file is read, else only those that changed."""
    verified = {} if hashed else _mark(folder, listing)
    out = []
    for name, file in sorted(listing.files.items()):
        path = folder / name
        if not path.is_file() or path.stat().st_size != file.bytes:
            out.append(name)
            continue
        if verified.get(name) != _stamp(path) and _sha256(path) != file.sha256:
            out.append(name)
    return out


def fetch(source: Source, listing: Listing, folder: Path, names: list[str]) -> Done:
    """Bring files of the listing into the folder; what an earlier run has of one is kept and gone on with.

    Raises KvlabError when the bytes do not come after some attempts, when they are not those of the listing, and when
    the folder cannot be written.
    """
    done = Done()
    for name in names:
        try:
            _one(source, name, listing.files[name], folder, done)
        except OSError as error:
            raise KvlabError(_unwritable(folder / name, error)) from None
        done.files.append(name)
    return done


def remember(listing: Listing, folder: Path) -> bool:
    """Note that all files are as listed; returns whether that was not noted before."""
    stamps = {name: _stamp(folder / name) for name in sorted(listing.files)}
    text = json.dumps({"list": listing.sha256, "files": stamps}) + "\n"
    mark = folder / MARK
    if mark.exists() and mark.read_text("utf-8") == text:
        return False
    mark.write_text(text, "utf-8")
    return True


def _one(source: Source, name: str, file: File, folder: Path, done: Done) -> None:
    """Bring one file, and count what was read."""
    target = folder / name
    part = target.with_name(f".{target.name}{PART}")
    target.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    resumed = part.stat().st_size > 0
    while True:
        _complete(source, name, file, part, done)
        found = _sha256(part)
        if found == file.sha256:
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(target)
            return
        part.unlink()
        if not resumed:
            raise KvlabError(
                f"{name} has sha256 {found}, the list says {file.sha256}; the source is damaged or was changed."
            )
        # The beginning may be of another revision: once from the start.
        resumed = False
        part.touch()


def _complete(source: Source, name: str, file: File, part: Path, done: Done) -> None:
    """Add to the part until it is as long as the file, with some attempts that bring nothing."""
    idle = 0
    while (have := part.stat().st_size) < file.bytes:
        why = ""
        try:
            _append(source, name, part, done)
        except SourceError as error:
            why = str(error)
        now = part.stat().st_size
        if now < file.bytes:
            idle = 0 if now > have else idle + 1
            _wait(idle, why or f"{name} ends after {now} of {file.bytes} bytes")


def _append(source: Source, name: str, part: Path, done: Done) -> None:
    """Add what the source gives beyond the part."""
    with source.open(name, part.stat().st_size) as (offset, chunks), part.open("r+b") as out:
        out.truncate(offset)
        out.seek(offset)
        for chunk in chunks:
            try:
                out.write(chunk)
                out.flush()
            except OSError as error:
                raise KvlabError(_unwritable(part, error)) from None
            done.bytes += len(chunk)


def _unwritable(path: Path, error: OSError) -> str:
    return f"{path} cannot be written ({error.strerror}); make room, or correct model_store_dir."


def _wait(idle: int, why: str) -> None:
    """Wait before another attempt, or say why there is none."""
    if idle >= ATTEMPTS - 1:
        raise KvlabError(f"{why}; {ATTEMPTS} attempts brought nothing. Run again: what has come is kept.")
    time.sleep(min(0.2 * 2**idle, 5))


def _stamp(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


def _mark(folder: Path, listing: Listing) -> dict[str, Any]:
    """Stamps of files that were verified against this listing."""
    try:
        values = json.loads((folder / MARK).read_text("utf-8"))
        return dict(values["files"]) if values["list"] == listing.sha256 else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
