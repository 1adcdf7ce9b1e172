"""The bytes of a round trip, the same in every process that knows the seed."""

from __future__ import annotations

import hashlib
import random

_COMPLEMENT = bytes(255 - i for i in range(256))


def content(seed: int, size: int) -> bytes:
    """`size` pseudo-random bytes of `seed`: no compression and no repeated page can fake them."""
    return random.Random(seed).randbytes(size)


def poison(expected: bytes) -> bytes:
    """Bytes that differ from `expected` at every place, so that one byte left unwritten is seen."""
    return expected.translate(_COMPLEMENT)


def digest(data: bytes | memoryview) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()
