"""kvlab-model.json, beside the files of a model: name, revision, and `bytes` and `sha256` of each file by path."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kvlab.errors import KvlabError

NAME = "kvlab-model.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class File:
    """One file: its size in bytes and its SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Listing:
    """What a revision consists of; `sha256` is that of the document itself, and so stands for all of it."""

    model: str
    revision: str
    files: Mapping[str, File]
    sha256: str


def make(folder: Path, model: str, revision: str) -> bytes:
    """The document for a model directory; every file in it that is not hidden is listed.

    Raises KvlabError when the folder holds no config.json or cannot be read.
    """
    if not (folder / "config.json").is_file():
        raise KvlabError(f"{folder} holds no config.json; name a Hugging Face model directory.")
    files = {}
    try:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and name.as_posix() != NAME and not any(part[0] == "." for part in name.parts):
                with path.open("rb") as opened:
                    digest = hashlib.file_digest(opened, "sha256").hexdigest()
                files[name.as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    except OSError as error:
        raise KvlabError(f"{error.filename} cannot be read ({error.strerror}).") from None
    return (json.dumps({"model": model, "revision": revision, "files": files}, indent=1) + "\n").encode()


def read(content: bytes, where: str, sha256: str = "") -> Listing:
    """The listing in a document from `where`.

    Raises KvlabError when it is another than the one of `sha256`, or no listing, or names a file outside its folder.
    """
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256:
        raise KvlabError(
            f"{where} has sha256 {found}, not {sha256}: it lists another revision. "
            "Correct model_store_sha256, or the source."
        )
    try:
        values = json.loads(content)
        files = {name: File(int(one["bytes"]), str(one["sha256"])) for name, one in values["files"].items()}
        listing = Listing(str(values["model"]), str(values["revision"]), files, found)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KvlabError(
            f"{where} is not what kvlab model list writes; make it again beside the weights."
        ) from None
    for name, file in files.items():
        path = PurePosixPath(name)
        if (
            path.is_absolute()
            or ".." in path.parts
            or not path.parts
            or any(part[0] == "." for part in path.parts)
        ):
            raise KvlabError(
                f"{where} lists {name!r}, which is no plain path in the model's folder; make it again."
            )
        if file.bytes < 0 or not _SHA256.fullmatch(file.sha256):
            raise KvlabError(f"{where}: {name} has no size or no sha256; make it again.")
    if not files:
        raise KvlabError(f"{where} lists no file; make it again.")
    return listing
