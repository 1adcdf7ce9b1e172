"""A lab's facts judged: every check on every host it applies to, equal findings together, and what to do first.

Pure: facts and waivers in, a diagnosis out.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kvlab.checks import REGISTRY, Check, Finding
from kvlab.doctor import fleet
from kvlab.doctor.labfacts import LAB, LabFacts, Problem
from kvlab.doctor.waivers import Waiver, find

HEALTHY, FINDINGS, COULD_NOT_LOOK = 0, 1, 2

GroupStatus = Literal["fail", "inconclusive", "waived", "pass"]

_STATUS_ORDER: tuple[GroupStatus, ...] = ("fail", "inconclusive", "waived", "pass")
_SEVERITY_ORDER = ("critical", "major", "minor")
# The floors of a lab: what is wrong below explains what is wrong above, so it is mended first.
_STAGE_ORDER = ("preflight", "host", "path", "serving")
ACTIONS = 3


@dataclass(frozen=True)
class Group:
    """One check with one outcome on one or more hosts; `evidence` maps a host to its lines."""

    check: Check
    status: GroupStatus
    evidence: Mapping[str, tuple[str, ...]]
    simulated: bool | None
    waivers: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.evidence)

    def as_json(self) -> dict[str, Any]:
        """The group as plain JSON values."""
        return {
            "id": self.check.id,
            "title": self.check.title,
            "stage": self.check.stage,
            "severity": self.check.severity,
            "status": self.status,
            "hosts": list(self.hosts),
            "evidence": {host: list(lines) for host, lines in self.evidence.items()},
            "remedy": "" if self.status == "pass" else self.check.remedy,
            "source": self.check.source,
            "simulated": self.simulated,
            "waivers": list(self.waivers),
        }


@dataclass(frozen=True)
class Diagnosis:
    """What the checks say about a lab. `not_asked` are checks about things that this lab does not have."""

    lab: str
    simulated: bool
    groups: tuple[Group, ...]
    not_asked: tuple[Check, ...]
    problems: tuple[Problem, ...]

    def of(self, status: GroupStatus) -> list[Group]:
        """The groups with that status, the gravest first."""
        return [group for group in self.groups if group.status == status]

    @property
    def exit_code(self) -> int:
        """2 when something could not be looked at, else 1 with a failure, else 2 without a verdict, else 0."""
        if self.problems:
            return COULD_NOT_LOOK
        if self.of("fail"):
            return FINDINGS
        if self.of("inconclusive") or not self.groups:
            return COULD_NOT_LOOK
        return HEALTHY

    def actions(self) -> list[str]:
        """What to do first: at most three remedies, failures before the unknown, causes before consequences."""
        wanted: list[str] = []
        for group in [*self.of("fail"), *self.of("inconclusive")]:
            action = f"{group.check.id} on {names(group.hosts)}: {group.check.remedy}"
            if group.check.remedy not in " ".join(wanted):
                wanted.append(action)
        if self.problems:
            unseen = sorted({problem.host for problem in self.problems})
            wanted.insert(0, f"look at {names(unseen)} first: {self.problems[0].reason}.".replace("..", "."))
        return wanted[:ACTIONS]

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as plain JSON values."""
        return {
            "schema": 1,
            "lab": self.lab,
            "simulated": self.simulated,
            "exit_code": self.exit_code,
            "findings": [group.as_json() for group in self.groups],
            "not_asked": [{"id": check.id, "topic": check.topic} for check in self.not_asked],
            "problems": [str(problem) for problem in self.problems],
            "actions": self.actions(),
        }


def select(ids: Iterable[str] = (), stage: str | None = None) -> list[Check]:
    """The checks that options name, by id. Raises ValueError for an id or prefix that selects nothing."""
    prefixes = tuple(ids)
    for prefix in prefixes:
        if not any(check_id.startswith(prefix) for check_id in REGISTRY):
            raise ValueError(f"no check has an id that starts with {prefix!r}")
    chosen = [
        check
        for check_id, check in sorted(REGISTRY.items())
        if (not prefixes or check_id.startswith(prefixes)) and stage in (None, check.stage)
    ]
    if not chosen:
        raise ValueError(f"no check of stage {stage} has an id that starts with {', '.join(prefixes)}")
    return chosen


def diagnose(
    facts: LabFacts,
    checks: Iterable[Check],
    waivers: Iterable[Waiver] = (),
    today: datetime.date | None = None,
    *,
    asked_for: Iterable[str] = (),
) -> Diagnosis:
    """Judge a lab. A check runs on each host that has, or must have, facts about its topic.

    A check whose topic applies nowhere is in `not_asked`; one whose very id is in `asked_for` is inconclusive.
    """
    named = set(asked_for)
    waivers, day = tuple(waivers), today or datetime.datetime.now(datetime.UTC).date()
    hosts = fleet.with_comparisons(facts.hosts)
    found: dict[tuple[str, GroupStatus], dict[str, tuple[Finding, str]]] = {}
    not_asked: list[Check] = []
    chosen = {check.id: check for check in checks}
    for check in chosen.values():
        where = [
            host
            for host in {**hosts, **facts.applies}
            if check.topic in hosts.get(host, {}) or check.topic in facts.applies.get(host, ())
        ]
        if not where and check.id not in named:
            not_asked.append(check)
        for host in where or ([LAB] if check.id in named else []):
            finding = check.run(hosts.get(host, {}))
            waiver = find(waivers, check.id, host, day) if finding.status == "fail" else None
            status: GroupStatus = "waived" if waiver else finding.status
            found.setdefault((check.id, status), {})[host] = (finding, str(waiver) if waiver else "")
    groups = [
        Group(
            chosen[check_id],
            status,
            {host: one.evidence for host, (one, _) in by_host.items()},
            _simulated(one.simulated for one, _ in by_host.values()),
            tuple(dict.fromkeys(text for _, text in by_host.values() if text)),
        )
        for (check_id, status), by_host in found.items()
    ]
    return Diagnosis(
        facts.lab, facts.simulated, tuple(sorted(groups, key=_order)), tuple(not_asked), facts.problems
    )


def names(hosts: Iterable[str], most: int = 4) -> str:
    """Host names for a sentence; many are counted."""
    listed = list(hosts)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:2])} … {listed[-1]} ({len(listed)} hosts)"


def _order(group: Group) -> tuple[int, int, int, int, str]:
    return (
        _STATUS_ORDER.index(group.status),
        _SEVERITY_ORDER.index(group.check.severity),
        _STAGE_ORDER.index(group.check.stage),
        -len(group.hosts),
        group.check.id,
    )


def _simulated(marks: Iterable[bool | None]) -> bool | None:
    known = set(marks)
    return True if True in known else None if None in known else False
