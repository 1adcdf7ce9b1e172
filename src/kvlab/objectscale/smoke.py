"""Whether S3 works at an address: write, look, read, list and delete, as the lab does and as SDKs do by default."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale import s3 as store

PREFIX = ".kvlab/probe-"
"""No key of LMCache holds a slash, so no probe is ever taken for KV."""

SIZE = 65_536
"""Bytes of a probe object: more than one network packet, less than a chunk."""

CHECKSUM_MODES = ("when_required", "when_supported")
"""The lab's own mode, which must work, and the default of SDKs, which ObjectScale may refuse."""


@dataclass(frozen=True)
class Outcome:
    """One mode at one address: it worked, or it ended at `step` with what was `seen` there."""

    checksums: str
    step: str = ""
    seen: str = ""

    @property
    def works(self) -> bool:
        return not self.step

    def as_json(self) -> dict[str, Any]:
        return {"checksums": self.checksums, "works": self.works, "step": self.step, "seen": self.seen}


def throw_away_key() -> str:
    """A key that nobody else has."""
    return f"{PREFIX}{secrets.token_hex(8)}"


@contextmanager
def throw_away(s3: Any, bucket: str) -> Iterator[str]:
    """A key whose object is gone afterwards, whatever happened."""
    key = throw_away_key()
    try:
        yield key
    finally:
        s3.delete_object(Bucket=bucket, Key=key)


def test(client: Callable[[str], Any], bucket: str) -> list[Outcome]:
    """Every checksum mode in turn; `client(mode)` gives boto3's client.

    Raises botocore's errors from the clean-up alone.
    """
    return [_one(client(mode), bucket, mode) for mode in CHECKSUM_MODES]


def _one(s3: Any, bucket: str, mode: str) -> Outcome:
    from botocore.exceptions import BotoCoreError, ClientError

    content = secrets.token_bytes(SIZE)
    with throw_away(s3, bucket) as key:
        steps: dict[str, Callable[[], object]] = {
            "put": lambda: s3.put_object(Bucket=bucket, Key=key, Body=content),
            "head": lambda: _expect(s3.head_object(Bucket=bucket, Key=key)["ContentLength"], SIZE),
            "get": lambda: _same(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), content),
            "list": lambda: _expect(_listed(s3, bucket, key), [(key, SIZE)]),
            "delete": lambda: s3.delete_object(Bucket=bucket, Key=key),
            "list after delete": lambda: _expect(_listed(s3, bucket, key), []),
        }
        for step, does in steps.items():
            try:
                does()
            except (BotoCoreError, ClientError, KvlabError) as error:
                return Outcome(mode, step, str(error))
    return Outcome(mode)


def _listed(s3: Any, bucket: str, key: str) -> list[tuple[str, int]]:
    return [(found.key, found.size) for found in store.objects(s3, bucket, key)]


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise KvlabError(f"{found} instead of {wanted}")


def _same(found: bytes, wanted: bytes) -> None:
    if found != wanted:
        raise KvlabError(f"{len(found)} bytes of another content came back for {len(wanted)}")
