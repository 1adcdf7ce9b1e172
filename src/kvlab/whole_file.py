"""Files that are there whole or not at all: written aside, in the same folder, then moved or linked into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvlab.errors import KvlabError


@contextmanager
def aside(path: Path, content: bytes, mode: int = 0o600, *, fsync: bool = False) -> Iterator[Path]:
    """A file beside `path` with the content, gone in the end unless it was moved away.

    `fsync`: its bytes are on the disk before it is given. Raises KvlabError when the folder cannot be written.
    """
    try:
        # mkstemp makes the file 0600 from its first byte on.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as out:
                os.fchmod(handle, mode)
                out.write(content)
                out.flush()
                if fsync:
                    os.fsync(handle)
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise KvlabError(f"{path} cannot be written ({error.strerror}); correct the path") from None
