"""How long a run still takes, from what its passes took so far. Pure; no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from kvlab.ttft.result import Series


class Step(NamedTuple):
    """A pass, or with context 0 the start of a profile's services."""

    profile: str
    series: Series
    context: int  # tokens
    concurrency: int = 1


@dataclass
class Forecast:
    """Seconds that steps took, by kind. A kind that was not seen yet is estimated from its nearest relative."""

    took: dict[Step, list[float]] = field(default_factory=dict)

    def note(self, step: Step, seconds: float) -> None:
        """A step took so long."""
        self.took.setdefault(step, []).append(seconds)

    def left(self, steps: Iterable[Step]) -> float | None:
        """Seconds that steps will take; None before anything was seen."""
        if not self.took:
            return None
        return sum(self._guess(step) for step in steps)

    def _guess(self, step: Step) -> float:
        if step in self.took:
            return median(self.took[step])
        alike = [one for one in self.took if (one.context == 0) == (step.context == 0)] or list(self.took)
        near = min(alike, key=lambda one: _distance(one, step))
        work = step.context * step.concurrency, near.context * near.concurrency
        return median(self.took[near]) * (work[0] / work[1] if all(work) else 1.0)


def _distance(one: Step, other: Step) -> tuple[bool, float, bool]:
    """How unlike two steps are. What is computed takes far longer than what is loaded, whatever the profile."""
    ratio = max(one.context, other.context) / max(min(one.context, other.context), 1)
    return _computed(one) != _computed(other), ratio, one.profile != other.profile


def _computed(step: Step) -> bool:
    return step.series == "cold" or step.profile == "baseline"


def in_words(seconds: float | None) -> str:
    """A time left: `1 h 5 min`, `12 min`, `40 s`; `unknown` for None."""
    if seconds is None:
        return "unknown"
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if minutes >= 2 else f"{round(seconds)} s"
