"""Content of the lab's buckets, listed in the background: a bucket of a million objects takes longer than a scrape."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kvlab.errors import KvlabError

Listing = Callable[[str], tuple[int, int]]
"""Objects and bytes of a bucket. Raises one of `Buckets.errors` where the store does not answer."""


@dataclass(frozen=True)
class Content:
    """What a bucket held at `at`, in seconds of time.time()."""

    objects: int
    bytes: int
    at: float


@dataclass
class Buckets:
    """The last content of each bucket, renewed every `interval_s`. The first listing is made by `refresh`."""

    names: tuple[str, ...]
    listing: Listing
    interval_s: float
    errors: tuple[type[Exception], ...] = (KvlabError, OSError)
    last: dict[str, Content] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def refresh(self) -> None:
        """List every bucket once; one that cannot be listed keeps what was last seen of it, and is marked."""
        for name in self.names:
            try:
                objects, size = self.listing(name)
            except self.errors:
                self.failed.add(name)
                continue
            self.failed.discard(name)
            self.last[name] = Content(objects, size, time.time())

    def follow(self) -> None:
        """Renew until `stop` is called; for a thread."""
        while not self._stop.is_set():
            self.refresh()
            self._stop.wait(self.interval_s)

    def stop(self) -> None:
        """Let `follow` end."""
        self._stop.set()
