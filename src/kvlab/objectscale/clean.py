"""Deleting objects of a bucket, one by one, by prefix or age; a rerun goes on where an interrupted one ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kvlab.objectscale import s3 as store

BATCH = 1000
"""Keys handed to the workers at once: a page of the listing."""


@dataclass(frozen=True)
class Choice:
    """Which objects go: keys that begin with `prefix`, last written before `before`."""

    prefix: str = ""
    before: datetime | None = None

    @property
    def whole(self) -> bool:
        """Whether that is everything in the bucket."""
        return not self.prefix and self.before is None


def chosen(s3: Any, bucket: str, choice: Choice) -> Iterator[store.StoredObject]:
    """The objects that are to go. The record of the cache epoch is never among them."""
    for found in store.objects(s3, bucket, choice.prefix):
        if found.key != store.EPOCH_KEY and (choice.before is None or found.modified < choice.before):
            yield found


def delete(s3: Any, bucket: str, choice: Choice, done: Callable[[], object]) -> None:
    """Delete the objects; `done()` is called after each. Raises botocore's errors.

    DeleteObjects is not used: ObjectScale refuses it without Content-MD5, which SDKs no longer send. When everything
    goes, the record of the cache epoch goes last: as long as KV is left, it says which weights that belongs to.
    """

    def remove(key: str) -> None:
        s3.delete_object(Bucket=bucket, Key=key)

    keys = (found.key for found in chosen(s3, bucket, choice))
    with ThreadPoolExecutor(store.CONNECTIONS) as workers:
        while batch := list(itertools.islice(keys, BATCH)):
            for _ in workers.map(remove, batch):
                done()
    if choice.whole:
        remove(store.EPOCH_KEY)
