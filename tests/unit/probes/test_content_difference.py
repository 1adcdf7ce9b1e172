"""What is wrong with the bytes that came back, in words that lead to the cause."""

from __future__ import annotations

import pytest

from kvlab.probes.content import BLOCK_BYTES, content, difference, poison

SIZE = 3 * BLOCK_BYTES + 5
RIGHT = content(1, SIZE)
OTHER = content(2, SIZE)
FLIPPED = bytes([RIGHT[0], RIGHT[1] ^ 4, *RIGHT[2:]])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (bytes(SIZE), "all of it zeros"),
        (poison(RIGHT), "all of it untouched"),
        (OTHER, "the bytes of the object before"),
        (RIGHT[:100], f"cut short: 100 bytes instead of {SIZE}"),
        (RIGHT + b"x", f"too long: {SIZE + 1} bytes instead of {SIZE}"),
        (OTHER[:100], f"cut short: 100 bytes instead of {SIZE}, and others"),
        (RIGHT[:BLOCK_BYTES] + poison(RIGHT)[BLOCK_BYTES:], "1 right, 3 untouched"),
        (RIGHT[: 2 * BLOCK_BYTES] + bytes(BLOCK_BYTES + 5), "2 right, 2 zeros"),
        (OTHER[:BLOCK_BYTES] + RIGHT[BLOCK_BYTES:], "1 of the object before, 3 right"),
        (b"1234567" + RIGHT[:-7], "shifted by 7 bytes"),
        (RIGHT[9:] + bytes(9), "shifted by -9 bytes"),
        (FLIPPED, "1 bit flipped, the first in byte 1"),
        (content(3, SIZE), "other bytes, the first at 0"),
    ],
)
def test_each_kind_of_wrong_content_has_its_own_words(data: bytes, said: str) -> None:
    found = difference(data, RIGHT, {"the object before": OTHER})
    assert found is not None
    assert found.endswith(said)


def test_equal_content_has_no_difference() -> None:
    assert difference(RIGHT, bytes(RIGHT), {"the object before": OTHER}) is None


def test_a_single_byte_is_judged_too() -> None:
    assert difference(poison(b"a"), b"a") == "all of it untouched"
    assert difference(b"b", b"a") == "2 bits flipped, the first in byte 0"
