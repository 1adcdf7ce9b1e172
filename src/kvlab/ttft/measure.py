"""The run itself: starts, contexts and passes in their order, and a result that is whole after each of them.

for each start: for each profile: start its services (empty tier), warm up, then for each context
    a cold pass -> everything is stored -> hot passes of the same prompt
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from kvlab.errors import KvlabError
from kvlab.probes import Facts
from kvlab.ttft import prompts, proof
from kvlab.ttft.plan import Plan
from kvlab.ttft.proof import Group
from kvlab.ttft.result import Pass, Result, Scalar, Series, Start


class InterruptedRunError(KvlabError):
    """The user ended the run; what was measured is kept."""

    exit_code = 130


class Serving(Protocol):
    """The services of one profile, just started, with an empty tier."""

    def about(self) -> dict[str, Scalar]:
        """Versions and process ids."""

    def ask(self, ids: Sequence[int]) -> Facts:
        """One request outside any pass."""

    def measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        """Requests at once, and what was counted for them."""

    def doubts(self, group: Group, cold: Group | None) -> list[str]:
        """Why the pass is not what it claims to be; nothing when that is proven. `cold` is that of the same prompts."""


class Site(Protocol):
    """A lab in which profiles can be started, one at a time."""

    def start(self, profile: str) -> Serving:
        """Start a profile's services afresh. Raises KvlabError when they do not come up."""


@dataclass
class Run:
    """One run of a plan. `save` gets the result after each pass, `tell` a line of progress."""

    plan: Plan
    profiles: Sequence[str]
    site: Site
    result: Result
    save: Callable[[Result], None]
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._began = self.clock() - max((p.at_s for p in self.result.passes), default=0.0)
        self._took: list[float] = []

    def go(self) -> None:
        """Measure what is not measured yet. Whatever ends it, the result holds all passes that were finished.

        Raises KvlabError when services die or do not come up, and when it is interrupted.
        """
        self.result.stopped = ""
        _forget_unfinished(self.result, self.plan)
        try:
            for number, (index, profile) in enumerate(order(self.plan, self.profiles)):
                if number < len(self.result.starts):
                    continue
                self._start(number, index, profile)
            self.result.complete = True
        except KeyboardInterrupt:
            self.result.stopped = "interrupted"
            raise InterruptedRunError(
                f"interrupted; {len(self.result.passes)} passes are kept. Go on with --resume."
            ) from None
        except KvlabError as error:
            self.result.stopped = str(error)
            raise KvlabError(
                f"{str(error).rstrip('.')}. {len(self.result.passes)} passes are kept; go on with --resume."
            ) from error
        finally:
            self.save(self.result)

    def _start(self, number: int, index: int, profile: str) -> None:
        total = self.plan.starts * len(self.profiles)
        left = f", about {self._left(total - number)} left" if self._took else ""
        self.tell(f"start {number + 1} of {total}: {profile}{left}")
        began = self.clock()
        serving = self.site.start(profile)
        # Noted only now: a start that failed is not there, and --resume makes it again.
        start = Start(
            number=number,
            profile=profile,
            index=index,
            at=self.now().isoformat(timespec="seconds"),
            service=serving.about(),
        )
        self.result.starts.append(start)
        serving.ask(prompts.warmup(self.result.id, self.plan.seed, number, self.plan.warmup_tokens))
        for concurrency in self.plan.concurrency:
            for context in self.plan.contexts:
                self._context(serving, start, context, concurrency)
        self._took.append(self.clock() - began)

    def _context(self, serving: Serving, start: Start, context: int, concurrency: int) -> None:
        name = self.result.id, self.plan.seed, start.number, context
        asked = [prompts.prompt(*name, concurrency=concurrency, request=r) for r in range(concurrency)]
        cold = serving.measure("cold", context, asked)
        self._note(cold, start, 0, serving.doubts(cold, None))
        for index in range(self.plan.hot_passes):
            hot = serving.measure("hot", context, asked)
            self._note(hot, start, index, serving.doubts(hot, cold))
        self.tell(_line(self.result.passes, start, context, concurrency))

    def _note(self, group: Group, start: Start, index: int, reasons: Sequence[str]) -> None:
        at_s = max(self.clock() - self._began, 0.0)
        self.result.passes += proof.record(group, start.number, index, at_s, reasons)
        self.save(self.result)
        if problem := proof.ended(group):
            raise KvlabError(problem)

    def _left(self, starts: int) -> str:
        minutes = sum(self._took) / len(self._took) * starts / 60
        return f"{minutes:.0f} min" if minutes >= 1 else "a minute"


def order(plan: Plan, profiles: Sequence[str]) -> list[tuple[int, str]]:
    """(start of the profile, profile) in order of time: A B C A B C, so that a lab that drifts strikes all alike."""
    return [(index, profile) for index in range(plan.starts) for profile in profiles]


def profiles_of(plan: Plan, configured: Mapping[str, object]) -> list[str]:
    """The profiles to measure in a lab. Raises KvlabError when one that the plan wants is not configured."""
    missing = [name for name in plan.profiles if name not in configured]
    if missing:
        raise KvlabError(
            f"the plan {plan.name} measures {missing[0]}, which this lab has not; it has {', '.join(configured)}."
        )
    return [*plan.profiles, *(name for name in plan.where_configured if name in configured)]


def _forget_unfinished(result: Result, plan: Plan) -> None:
    """Drop the last start when it lacks passes: services were restarted since, and its prompts are half stored."""
    wanted = len(plan.contexts) * (plan.hot_passes + 1) * sum(plan.concurrency)
    for start in list(result.starts):
        if sum(p.start == start.number for p in result.passes) < wanted:
            result.starts.remove(start)
            result.passes = [p for p in result.passes if p.start != start.number]


def _line(passes: Sequence[Pass], start: Start, context: int, concurrency: int) -> str:
    """A context in one line: cold and hot TTFT, and how many passes are proven."""
    own = [p for p in passes if (p.start, p.context, p.concurrency) == (start.number, context, concurrency)]
    times = {s: [p.ttft_first_token_s for p in own if p.series == s] for s in ("cold", "hot")}
    shown = {s: [t * 1000 for t in found if t is not None] for s, found in times.items()}
    cold = f"{shown['cold'][0]:.0f} ms" if shown["cold"] else "no token"
    hot = f"{sorted(shown['hot'])[len(shown['hot']) // 2]:.0f} ms" if shown["hot"] else "no token"
    proven = sum(p.proven for p in own)
    doubt = "" if proven == len(own) else f"; {next(p.reasons[0] for p in own if not p.proven)[:200]}"
    return f"{start.profile}: {context} tokens: cold {cold}, hot {hot}; {proven} of {len(own)} proven{doubt}"
