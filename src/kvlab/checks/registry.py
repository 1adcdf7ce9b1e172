"""The table of checks: id, title, stage, severity, source, the facts a check needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvlab.checks.finding import Finding, Severity, Status
from kvlab.errors import KvlabError

Stage = Literal["preflight", "host", "path", "serving"]
TopicFacts = Mapping[str, Any]

ENVELOPE = {"error", "simulated", "schema", "seconds_taken"}
"""What a topic holds whose probe failed: the reason and no facts."""

EVIDENCE_LINES = 8  # a finding stays readable; what is left out is counted


@dataclass(frozen=True)
class Verdict:
    """What a check's function decides; the rest of the finding comes from the table."""

    status: Status
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Check:
    """One check. `topic` names the facts it needs; `remedy` is what to do when it does not pass."""

    id: str
    title: str
    stage: Stage
    severity: Severity
    topic: str
    remedy: str
    source: str
    decide: Callable[[TopicFacts], Verdict]

    def run(self, facts: Mapping[str, Any]) -> Finding:
        """Judge `facts`; facts that are absent, incomplete or of another shape give `inconclusive` and say so."""
        simulated: bool | None = None
        topic = facts.get(self.topic)
        if topic is None:
            verdict = Verdict("inconclusive", (f"no facts about {self.topic!r} were collected",))
        elif not isinstance(topic, Mapping):
            verdict = Verdict("inconclusive", (f"the facts about {self.topic!r} are no mapping",))
        elif topic.get("error") and set(topic) <= ENVELOPE:
            verdict = Verdict("inconclusive", (f"{self.topic}: {topic['error']}",))
        else:
            simulated = topic.get("simulated")
            try:
                verdict = self.decide(topic)
            except KeyError as error:
                verdict = Verdict("inconclusive", (f"the facts about {self.topic!r} lack {error}",))
            except (TypeError, ValueError, AttributeError, IndexError, KvlabError) as error:
                shape = f"the facts about {self.topic!r} have another shape than this check reads ({error})"
                verdict = Verdict("inconclusive", (shape,))
        remedy = "" if verdict.status == "pass" else self.remedy
        return Finding(
            self.id,
            self.severity,
            verdict.status,
            self.title,
            _short(verdict.evidence),
            remedy,
            self.source,
            simulated,
        )


REGISTRY: dict[str, Check] = {}


def check(
    check_id: str, title: str, *, stage: Stage, severity: Severity, topic: str, remedy: str, source: str
) -> Callable[[Callable[[TopicFacts], Verdict]], Callable[[TopicFacts], Verdict]]:
    """Register a function `facts of one topic -> Verdict` as the check `check_id`."""

    def register(decide: Callable[[TopicFacts], Verdict]) -> Callable[[TopicFacts], Verdict]:
        if check_id in REGISTRY:
            raise ValueError(f"check {check_id} is registered twice")
        REGISTRY[check_id] = Check(check_id, title, stage, severity, topic, remedy, source, decide)
        return decide

    return register


def verdict(failures: Sequence[str], unknown: Sequence[str], passed: Sequence[str]) -> Verdict:
    """Fail if anything failed, else inconclusive if anything is unknown or nothing was seen, else pass."""
    if failures:
        return Verdict("fail", (*failures, *unknown))
    if unknown:
        return Verdict("inconclusive", tuple(unknown))
    if not passed:
        return Verdict("inconclusive", ("nothing was there to judge",))
    return Verdict("pass", tuple(passed))


class Tally:
    """Lines of evidence on the way to a verdict."""

    def __init__(self) -> None:
        self._failed: list[str] = []
        self._unknown: list[str] = []
        self._passed: list[str] = []

    @property
    def failed(self) -> bool:
        """Whether anything counts against."""
        return bool(self._failed)

    def add(self, good: bool, line: str) -> None:
        """Count `line` for or against."""
        (self._passed if good else self._failed).append(line)

    def ok(self, line: str) -> None:
        """Count `line` for."""
        self._passed.append(line)

    def fail(self, line: str) -> None:
        """Count `line` against."""
        self._failed.append(line)

    def unknown(self, line: str) -> None:
        """Note what could not be judged."""
        self._unknown.append(line)

    def verdict(self) -> Verdict:
        """`verdict` of all the lines."""
        return verdict(self._failed, self._unknown, self._passed)


def _short(lines: tuple[str, ...]) -> tuple[str, ...]:
    if len(lines) <= EVIDENCE_LINES:
        return lines
    return (*lines[: EVIDENCE_LINES - 1], f"and {len(lines) - EVIDENCE_LINES + 1} more")
