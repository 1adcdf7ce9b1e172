"""Writes the test model as a Hugging Face model directory: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.testmodel import tokenizer, weights

MARKER = "kvlab-model.json"


def contents(seed: int) -> dict[str, bytes]:
    """The model's files by name, the marker included: which seed they come from and the SHA-256 of each.

    The same bytes on every machine and at every time.
    """
    files = {
        "config.json": _json(weights.config()),
        "generation_config.json": _json(weights.generation_config()),
        "model.safetensors": weights.safetensors_bytes(weights.tensors(seed)),
        "tokenizer.json": _json(tokenizer.tokenizer()),
        "tokenizer_config.json": _json(tokenizer.tokenizer_config(weights.MAX_POSITIONS)),
    }
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return {**files, MARKER: _json({"made_by": "kvlab model make", "seed": seed, "sha256": digests})}


def make(directory: Path, seed: int = 0) -> bool:
    """Write the model of `seed` into `directory`; False when it is there already, byte for byte.

    The files are written beside the directory and renamed into place, so an interrupted run leaves the old
    directory (a killed one perhaps none, and hidden ones beside it that the next run removes). Only an empty
    directory or one that this function made is replaced.

    Raises:
        KvlabError: `directory` holds something else, or cannot be written.
    """
    directory = Path(os.path.abspath(directory))  # noqa: PTH100 (keeps a symbolic link's own name)
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise KvlabError(f"{directory} is not a directory; name a new directory for the model.")
    if directory.exists() and any(directory.iterdir()) and not (directory / MARKER).is_file():
        raise KvlabError(
            f"{directory} holds files that kvlab did not make and is left as it is; name a new or empty directory."
        )
    files = contents(seed)
    try:
        if _holds(directory, files):
            return False
        _replace(directory, files)
    except OSError as error:
        raise KvlabError(
            f"The model cannot be written to {directory} ({error.strerror}); free space or mend the permissions, "
            "then run it again."
        ) from error
    return True


def _holds(directory: Path, files: dict[str, bytes]) -> bool:
    return all(
        (directory / name).is_file() and (directory / name).read_bytes() == data
        for name, data in files.items()
    )


def _replace(directory: Path, files: dict[str, bytes]) -> None:
    fresh = directory.with_name(f".{directory.name}.kvlab-new")
    old = directory.with_name(f".{directory.name}.kvlab-old")
    directory.parent.mkdir(parents=True, exist_ok=True)
    for left_over in (fresh, old):
        if left_over.exists():
            shutil.rmtree(left_over)
    try:
        fresh.mkdir()
        for name, data in files.items():
            with (fresh / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if directory.exists():
            directory.rename(old)
        fresh.rename(directory)
    finally:
        if old.exists() and not directory.exists():
            old.rename(directory)
        for left_over in (fresh, old):
            if left_over.exists():
                shutil.rmtree(left_over)


def _json(value: dict[str, object]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
