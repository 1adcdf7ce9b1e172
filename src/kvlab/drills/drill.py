"""What a drill is, and how one is run: healthy, broken, restored, each judged by the doctor's own checks.

A drill passes only if the expected check passed before, failed while the thing was broken, and passed again after, and
if no other check of the same topics fails then that did not before.
Three honest kinds: `lab` breaks the lab that is up; `scratch` runs the real software on something of its own; `facts`
changes one thing in facts, for states that cannot exist on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvlab.checks import REGISTRY, Finding, judge
from kvlab.errors import KvlabError

if TYPE_CHECKING:
    from kvlab.drills.bench import Bench

Kind = Literal["lab", "scratch", "facts"]
Origin = Literal["field report", "public log", "thought up here"]
Verdict = Literal["named", "missed", "not restored", "could not run"]
Topics = Mapping[str, Any]
Findings = Mapping[str, Finding]

PAUSE_S = 0.5
NAMED, MISSED, COULD_NOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class Scene:
    """A drill made ready: `look` collects topics of facts, `broken` breaks the thing for as long as it is entered.

    Scenes of the same `like` look at the same things: what one of them saw at its end is what the next begins with.
    """

    look: Callable[[], Topics]
    broken: Callable[[], AbstractContextManager[object]]
    like: str = ""


@dataclass
class Switch:
    """Whether a scene is broken now, where the fault lies in what `look` looks at."""

    on: bool = False

    @contextmanager
    def thrown(self) -> Iterator[None]:
        """It is on meanwhile."""
        self.on = True
        try:
            yield
        finally:
            self.on = False


@dataclass(frozen=True)
class Drill:
    """One fault. `expects` is the check that must name it, `words` what its evidence must contain.

    `patience_s` and `recovery_s` are how long naming and recovering may take; within them `look` is repeated.
    """

    name: str
    kind: Kind
    breaks: str
    staged: str
    origin: Origin
    reference: str
    expects: str
    scene: Callable[[Bench], Scene]
    words: str = ""
    ci: bool = False
    needs: tuple[str, ...] = ()
    patience_s: float = 0.0
    recovery_s: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """What the list of drills says of it."""
        names = ("name", "kind", "breaks", "staged", "origin", "reference", "expects", "ci", "needs")
        return {name: getattr(self, name) for name in names} | {"needs": list(self.needs)}


@dataclass(frozen=True)
class Outcome:
    """What came of a drill. `seconds` from the fault to its name; `others` are checks that failed beside it."""

    name: str
    kind: Kind
    expects: str
    verdict: Verdict
    seconds: float | None
    evidence: tuple[str, ...]
    others: tuple[str, ...]
    reason: str
    simulated: bool

    @property
    def exit_code(self) -> int:
        return {"named": NAMED, "could not run": COULD_NOT_RUN}.get(self.verdict, MISSED)

    def as_json(self) -> dict[str, Any]:
        """The outcome as plain JSON values."""
        return asdict(self) | {"evidence": list(self.evidence), "others": list(self.others)}


def run(drill: Drill, bench: Bench) -> Outcome:
    """Run one drill; the thing is restored whatever happens. What keeps it from running is an outcome, not an error."""
    told: dict[str, Any] = {"seconds": None, "evidence": (), "others": ()}

    def ended(verdict: Verdict, reason: str = "") -> Outcome:
        return Outcome(
            drill.name, drill.kind, drill.expects, verdict, reason=reason, simulated=bench.simulated, **told
        )

    def restored(found: Findings) -> bool:
        return found[drill.expects].status == "pass" and not _worse(before, found)

    from botocore.exceptions import BotoCoreError, ClientError

    before: Findings = {}
    try:
        scene = drill.scene(bench)
        before = bench.left_healthy.pop(scene.like, {}) or _wait(
            scene, drill, lambda found: found[drill.expects].status == "pass", drill.recovery_s
        )
        bench.left_healthy.clear()
        if before[drill.expects].status != "pass":
            return ended("could not run", f"not healthy before: {_line(before[drill.expects])}")
        with scene.broken():
            began = time.monotonic()
            seen = _wait(scene, drill, lambda found: found[drill.expects].status == "fail", drill.patience_s)
            took = round(time.monotonic() - began, 2)
        found = seen[drill.expects]
        told["evidence"] = found.evidence
        told["others"] = tuple(name for name in _worse(before, seen) if name != drill.expects)
        after = _wait(scene, drill, restored, drill.recovery_s)
    except (KvlabError, OSError, BotoCoreError, ClientError) as error:
        return ended("could not run", str(error))
    if found.status != "fail":
        return ended("missed", f"while it was broken: {_line(found)}")
    if drill.words and drill.words not in " ".join(found.evidence):
        return ended("missed", f"the evidence does not say {drill.words!r}")
    told["seconds"] = took
    if not restored(after):
        bad = [drill.expects] if after[drill.expects].status != "pass" else _worse(before, after)
        return ended("not restored", f"afterwards: {'; '.join(_line(after[name]) for name in bad)}")
    if scene.like:
        bench.left_healthy[scene.like] = after
    return ended("named")


def _wait(
    scene: Scene, drill: Drill, enough: Callable[[Findings], bool], limit_s: float
) -> dict[str, Finding]:
    """Findings by id, looked for again until they are enough or the time is over."""
    deadline = time.monotonic() + limit_s
    while True:
        found = _judged(scene.look(), drill.expects)
        if enough(found) or time.monotonic() >= deadline:
            return found
        time.sleep(PAUSE_S)


def _worse(before: Findings, now: Findings) -> list[str]:
    """The checks that fail now and did not before."""
    return [name for name, one in now.items() if one.status == "fail" and before[name].status != "fail"]


def _judged(topics: Topics, expects: str) -> dict[str, Finding]:
    if REGISTRY[expects].topic not in topics:
        raise KvlabError(f"{expects} judges {REGISTRY[expects].topic!r}, which the drill does not look at.")
    return {finding.id: finding for finding in judge(topics)}


def _line(finding: Finding) -> str:
    return f"{finding.id} is {finding.status} ({'; '.join(finding.evidence)})"
