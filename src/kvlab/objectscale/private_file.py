"""Files that only their owner can read: tokens and keys."""

from __future__ import annotations

import os
import secrets
import string
from contextlib import suppress
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.whole_file import aside

_KEY_LENGTH = 40
"""Characters of a new key, as many as the array's own keys have; base 62 gives 238 bits."""


def read(path: str | Path) -> str | None:
    """The file's content, None when there is no file. Refuses a file that others can read."""
    try:
        with open(path) as source:
            if os.fstat(source.fileno()).st_mode & 0o077:
                raise KvlabError(
                    f"others can reach {path}, so what is in it is no secret any more; remove it and replace what it "
                    "held, or give it mode 0600"
                )
            return source.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise KvlabError(f"{path} cannot be read ({error}); correct the path or its owner") from None


def write(path: str | Path, content: str) -> None:
    """Put the content in place with mode 0600; a reader never sees half of it."""
    with aside(Path(path), content.encode()) as written:
        written.replace(path)


def read_key(path: str | Path) -> str | None:
    """The secret key in the file, None when there is no file."""
    content = read(path)
    if content is not None and not content.strip():
        raise KvlabError(f"{path} holds no key; remove it, or put the key into it")
    return None if content is None else content.strip()


def ensure_key(path: str | Path) -> str:
    """The secret key in the file, which gets a new one when it is missing. Two at once agree on one key."""
    kept = read_key(path)
    if kept is not None:
        return kept
    with aside(Path(path), new_key().encode()) as written, suppress(FileExistsError):
        os.link(written, path)
    return ensure_key(path)


def new_key() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(_KEY_LENGTH))
