"""The bytes of a round trip, the same in every process that knows the seed; and what is wrong with other ones."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping

BLOCK_BYTES = 4096  # a page: what devices and the one-sided paths lose or swap as a piece
FEW_BITS = 64  # up to here bits have flipped; above it is other content
_WINDOW = 32  # random bytes that are found elsewhere by chance once in 2^256
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


def difference(data: bytes, expected: bytes, others: Mapping[str, bytes] | None = None) -> str | None:
    """What is wrong with `data` where `expected` should be, in words; None when they are equal.

    `others` are contents that a fault might bring instead, by what to call them ("the object before"). Told apart are:
    empty, cut short, too long, zeros, untouched (still poisoned), another's bytes, shifted, flipped bits, and pages of
    several of these.
    """
    if data == expected:
        return None
    if not data:
        return "empty"
    for name, other in (others or {}).items():
        if data == other:
            return f"the bytes of {name}"
    if len(data) != len(expected):
        same = data[: len(expected)] == expected[: len(data)]
        kind = "cut short" if len(data) < len(expected) else "too long"
        return f"{kind}: {len(data)} bytes instead of {len(expected)}{'' if same else ', and others'}"
    known = {
        "right": expected,
        "zeros": bytes(len(expected)),
        "untouched": poison(expected),
        **{f"of {name}": other for name, other in (others or {}).items() if len(other) == len(data)},
    }
    return _pages(data, known) or _shift(data, expected) or _flips(data, expected)


def _pages(data: bytes, known: Mapping[str, bytes]) -> str | None:
    """How many pages are of which content; None unless each page is one of them."""
    count: dict[str, int] = {}
    for begin in range(0, len(data), BLOCK_BYTES):
        page = slice(begin, begin + BLOCK_BYTES)
        name = next((name for name, content in known.items() if content[page] == data[page]), None)
        if name is None:
            return None
        count[name] = count.get(name, 0) + 1
    if len(count) == 1:
        return f"all of it {next(iter(count))}"
    return f"by pages of {BLOCK_BYTES} bytes: " + ", ".join(f"{n} {name}" for name, n in count.items())


def _shift(data: bytes, expected: bytes) -> str | None:
    """By how many bytes the content is shifted; None when its middle is not found in what was expected."""
    middle = len(data) // 2
    window = data[middle : middle + _WINDOW]
    found = expected.find(window) if len(window) == _WINDOW else -1
    return f"shifted by {middle - found} bytes" if found not in (-1, middle) else None


def _flips(data: bytes, expected: bytes) -> str:
    bits = (int.from_bytes(data) ^ int.from_bytes(expected)).bit_count()
    first = next(i for i, (a, b) in enumerate(zip(data, expected, strict=True)) if a != b)
    if bits <= FEW_BITS:
        return f"{bits} bit{'s' * (bits != 1)} flipped, the first in byte {first}"
    return f"other bytes, the first at {first}"
