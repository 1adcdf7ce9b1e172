"""What the gate says: a verdict over all, one for each profile and each cell, and what a doubtful one lacks.

Shifts, bounds and spreads are fractions of the base's TTFT (0.1 is 10 % slower); what is unknown is None.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Word = Literal["pass", "regress", "inconclusive"]
EXIT = {"pass": 0, "regress": 1, "inconclusive": 3}
"""Exit status by verdict; 2 is for what cannot be judged at all (KvlabError)."""


class CellVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One context of a profile. Seconds are geometric means over the starts."""

    context: int
    concurrency: int
    verdict: Word
    base_s: float | None
    candidate_s: float | None
    shift: float | None
    low: float | None  # 95 % interval of the shift
    high: float | None
    p: float | None  # one-sided, corrected for the number of cells


class StageVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Change of one stage as a share of the TTFT; `moved` when it is more than chance."""

    stage: str
    shift: float
    error: float
    moved: bool


class ProfileVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One profile over all its contexts.

    `spread` is the standard deviation between starts of one side, `detectable` the smallest slowdown found nine times
    in ten, `more_starts` how many more on each side would decide, if the shift stays what it is.
    """

    profile: str
    verdict: Word
    starts: tuple[int, int]  # base, candidate
    shift: float | None
    low: float | None
    high: float | None
    p: float | None  # one-sided, corrected for the number of profiles
    spread: float | None
    detectable: float | None
    calibrated_spread: float | None
    calibrated_detectable: float | None
    more_starts: int | None
    stages: tuple[StageVerdict, ...]
    cells: tuple[CellVerdict, ...]
    missing: tuple[str, ...]

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the stages that moved, the largest first."""
        return tuple(stage.stage for stage in self.stages if stage.moved)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The whole matrix. `missing` says what keeps it from a verdict, `notes` what to know when reading it."""

    verdict: Word
    simulated: bool
    base: tuple[str, ...]  # ids of the runs
    candidate: tuple[str, ...]
    profiles: tuple[ProfileVerdict, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return EXIT[self.verdict]

    def as_json(self) -> dict[str, Any]:
        """Plain values, with each profile's `moved` and the exit status."""
        found = dict(msgspec.to_builtins(self))
        for plain, profile in zip(found["profiles"], self.profiles, strict=True):
            plain["moved"] = list(profile.moved)
        return {**found, "exit_code": self.exit_code}
