"""The run itself: starts, contexts and passes in their order, and a result that is whole after each of them.

for each start: for each profile: start its services (empty tier), warm up, then for each context
    a cold pass -> everything is stored -> hot passes of the same prompt
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from kvlab.errors import KvlabError
from kvlab.probes import Facts
from kvlab.ttft import forecast, prompts, proof
from kvlab.ttft.forecast import Forecast, Step
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


@dataclass(frozen=True)
class Turn:
    """One start of a profile, the `index`-th, and the cells (concurrency, context) that it measures."""

    index: int
    profile: str
    cells: tuple[tuple[int, int], ...]


@dataclass
class Run:
    """One run of a plan. `save` gets the result after each pass, `tell` a line of progress.

    `progress` gets, after each pass, how many are done, how many there are, and the seconds left (None: unknown).
    """

    plan: Plan
    profiles: Sequence[str]
    site: Site
    result: Result
    save: Callable[[Result], None]
    tell: Callable[[str], None]
    progress: Callable[[int, int, float | None], None] = lambda _done, _all, _left: None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._began = self.clock() - max((p.at_s for p in self.result.passes), default=0.0)
        self._since = self.clock()
        self._forecast = Forecast()
        self._steps: deque[Step] = deque()
        self._all = 0

    def go(self) -> None:
        """Measure what is not measured yet. Whatever ends it, the result holds all passes that were finished.

        Raises KvlabError when services die or do not come up, and when it is interrupted.
        """
        self.result.stopped = ""
        _forget_idle(self.result)
        turns = remaining(self.plan, self.profiles, self.result)
        self._steps = deque(step for turn in turns for step in _steps(self.plan, turn))
        self._all = sum(step.context > 0 for step in self._steps)
        self.result.complete = False
        try:
            for number, turn in enumerate(turns):
                self.tell(f"start {number + 1} of {len(turns)}: {turn.profile}{self._left()}")
                self._turn(turn)
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

    def _turn(self, turn: Turn) -> None:
        self._since = self.clock()
        serving = self.site.start(turn.profile)
        # Noted only now: a start that failed is not there, and --resume makes it again.
        start = Start(
            number=max((one.number for one in self.result.starts), default=-1) + 1,
            profile=turn.profile,
            index=turn.index,
            at=self.now().isoformat(timespec="seconds"),
            service=serving.about(),
        )
        self.result.starts.append(start)
        serving.ask(prompts.warmup(self.result.id, self.plan.seed, start.number, self.plan.warmup_tokens))
        self._done()
        for concurrency, context in turn.cells:
            self._context(serving, start, context, concurrency)

    def _context(self, serving: Serving, start: Start, context: int, concurrency: int) -> None:
        name = self.result.id, self.plan.seed, start.number, context
        asked = [prompts.prompt(*name, concurrency=concurrency, request=r) for r in range(concurrency)]
        cold = serving.measure("cold", context, asked)
        self._note(cold, start, 0, serving.doubts(cold, None))
        for index in range(self.plan.hot(start.profile)):
            hot = serving.measure("hot", context, asked)
            self._note(hot, start, index, serving.doubts(hot, cold))
        self.tell(_line(self.result.passes, start, context, concurrency))

    def _note(self, group: Group, start: Start, index: int, reasons: Sequence[str]) -> None:
        at_s = max(self.clock() - self._began, 0.0)
        self.result.passes += proof.record(group, start.number, index, at_s, reasons)
        self.save(self.result)
        self._done()
        if problem := proof.ended(group):
            raise KvlabError(problem)

    def _done(self) -> None:
        """The next step of the run is done."""
        now = self.clock()
        self._forecast.note(self._steps.popleft(), now - self._since)
        self._since = now
        left = sum(step.context > 0 for step in self._steps)
        self.progress(self._all - left, self._all, self._forecast.left(self._steps))

    def _left(self) -> str:
        left = self._forecast.left(self._steps)
        return "" if left is None else f", about {forecast.in_words(left)} left"


def remaining(plan: Plan, profiles: Sequence[str], result: Result) -> list[Turn]:
    """What is not measured yet, in order of time: A B C A B C, so that a lab that drifts strikes all alike.

    A context that was interrupted is measured again, by a start of its own: the services began with an empty tier
    since. What its first start measured of it, and of other contexts, stays that start's.
    """
    of = {start.number: (start.index, start.profile) for start in result.starts}
    counted = Counter((one.start, one.concurrency, one.context) for one in result.passes)
    whole = {
        (*of[number], concurrency, context)
        for (number, concurrency, context), passes in counted.items()
        if passes >= (plan.hot(of[number][1]) + 1) * concurrency
    }
    cells = [(concurrency, context) for concurrency in plan.concurrency for context in plan.contexts]
    turns = [
        Turn(index, profile, tuple(cell for cell in cells if (index, profile, *cell) not in whole))
        for index in range(plan.starts)
        for profile in profiles
    ]
    return [turn for turn in turns if turn.cells]


def _steps(plan: Plan, turn: Turn) -> Iterator[Step]:
    yield Step(turn.profile, "warmup", 0)
    for concurrency, context in turn.cells:
        yield Step(turn.profile, "cold", context, concurrency)
        yield from [Step(turn.profile, "hot", context, concurrency)] * plan.hot(turn.profile)


def profiles_of(plan: Plan, configured: Mapping[str, object]) -> list[str]:
    """The profiles to measure in a lab. Raises KvlabError when one that the plan wants is not configured."""
    missing = [name for name in plan.profiles if name not in configured]
    if missing:
        raise KvlabError(
            f"the plan {plan.name} measures {missing[0]}, which this lab has not; it has {', '.join(configured)}."
        )
    return [*plan.profiles, *(name for name in plan.where_configured if name in configured)]


def _forget_idle(result: Result) -> None:
    """Drop starts that measured nothing before they were interrupted."""
    busy = {one.start for one in result.passes}
    result.starts = [start for start in result.starts if start.number in busy]


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
