"""One login per play: the token stands in a 0600 file between the play's modules, and is given back at the end.

A user may hold 100 tokens at once; one lives for 8 hours, or 2 hours unused (facts/objectscale.md 1.1).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from kvlab.errors import KvlabError
from kvlab.objectscale import private_file

_MARGIN = 300.0
"""Seconds before its end at which a token is not taken up again: a play should not lose it at once."""


@dataclass(frozen=True)
class Session:
    """A token and whom it is for. `made` is Unix time, `lifetime` seconds.

    `replication_groups` is name to URN, as far as the play has asked.
    """

    address: str
    username: str
    token: str = field(repr=False)
    made: float
    lifetime: float
    replication_groups: dict[str, str] = field(default_factory=dict)

    def is_for(self, address: str, username: str) -> bool:
        return (self.address, self.username) == (address, username)

    def is_young(self, now: float) -> bool:
        return self.made <= now < self.made + self.lifetime - _MARGIN


class Store(Protocol):
    """Where the session is kept; who changes it holds the lock."""

    def locked(self) -> AbstractContextManager[None]: ...
    def load(self) -> Session | None: ...
    def save(self, session: Session) -> None: ...
    def remove(self) -> None: ...


class Memory:
    """The session of a single module run."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def load(self) -> Session | None:
        return self._session

    def save(self, session: Session) -> None:
        self._session = session

    def remove(self) -> None:
        self._session = None


class SessionFile:
    """The session of a play, in a file that only its owner can read."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out; the folder is locked, for the file comes and goes."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path.parent, os.O_RDONLY)
        except OSError as error:
            raise KvlabError(
                f"{self._path.parent} cannot hold the session ({error.strerror}); name another session_file"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def load(self) -> Session | None:
        content = private_file.read(self._path)
        if content is None:
            return None
        try:
            return Session(**json.loads(content))
        except (ValueError, TypeError):
            raise KvlabError(f"{self._path} is not a session file; remove it or name another one") from None

    def save(self, session: Session) -> None:
        private_file.write(self._path, json.dumps(asdict(session)))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
