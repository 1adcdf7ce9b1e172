"""How long a run still takes is told from what its passes took."""

from __future__ import annotations

import pytest

from kvlab.ttft.forecast import Forecast, Step, in_words


def test_nothing_is_known_before_anything_was_seen() -> None:
    assert Forecast().left([Step("baseline", "hot", 64)]) is None


def test_a_pass_is_estimated_from_its_own_kind_else_from_its_nearest_relative() -> None:
    seen = Forecast()
    seen.note(Step("baseline", "warmup", 0), 30.0)
    for seconds in (1.0, 2.0, 9.0):
        seen.note(Step("baseline", "hot", 512), seconds)
    assert seen.left([Step("baseline", "hot", 512)] * 2) == 4.0
    assert seen.left([Step("s3-rdma", "warmup", 0)]) == 30.0
    assert seen.left([Step("s3-rdma", "cold", 1024)]) == 4.0
    seen.note(Step("s3-http", "hot", 64), 0.1)
    # What is loaded is no relative of what is computed, however near its context.
    assert seen.left([Step("s3-rdma", "hot", 512)]) == pytest.approx(0.8)
    assert seen.left([]) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "unknown"), (40.4, "40 s"), (100, "2 min"), (719, "12 min"), (3900, "1 h 5 min")],
)
def test_a_time_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words
