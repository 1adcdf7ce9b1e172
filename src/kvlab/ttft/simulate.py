"""How often the gate cries wolf, and what it finds: the gate and its rivals on synthetic series (simulated).

A synthetic pass is log-normal: the effect of its start, the same for all contexts of the profile in that start, plus
the pass's own noise; a few passes are outliers. What is true of every series is known here, so the rates are exact
but for their number of runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kvlab.errors import KvlabError
from kvlab.ttft import model
from kvlab.ttft.rivals import RIVALS, Alarms
from kvlab.ttft.variance import Floats

BLOCK = 500
"""Runs drawn at once: a few tens of MiB."""
SLOWDOWNS = (0.10, 0.20)


@dataclass(frozen=True)
class World:
    """What series are drawn from. Spreads are standard deviations of log seconds."""

    profiles: int = 3
    contexts: int = 5
    starts: int = 5  # a side
    passes: int = 5
    start_spread: float = 0.03
    pass_noise: float = 0.03
    outliers: float = 0.04  # share of passes
    outlier_factor: float = 1.5
    uneven: float = 1.0  # times the start spread, for the last profile

    def draw(self, runs: int, rng: np.random.Generator) -> Floats:
        """Log seconds of passes, shape (runs, 2 sides, P, starts, C, passes); both sides alike."""
        shape = (runs, 2, self.profiles, self.starts, self.contexts, self.passes)
        start = rng.normal(0, self.start_spread, (*shape[:4], 1, 1))
        start[:, :, -1] *= self.uneven
        outlier = rng.random(shape) < self.outliers
        noise = rng.normal(0, self.pass_noise, shape)
        passes: Floats = start + noise + outlier * float(np.log(self.outlier_factor))
        return passes


def simulate(world: World | None = None, *, runs: int = 2000, seed: int = 1) -> dict[str, Any]:
    """Rates of the gate and of its rivals over `runs` series, as plain values.

    `false_alarm_rate`: any profile or cell called slower when nothing changed. `detection_rate`: the first profile
    called slower when all its contexts are, by slowdown. `cell_detection_rate`: the first cell, when it alone is.
    Raises KvlabError when the world cannot be judged at all.
    """
    world = world or World()
    fewest = model.PULL_REQUEST.min_base
    if world.starts < fewest or min(runs, world.profiles, world.contexts, world.passes) < 1:
        raise KvlabError(
            f"nothing can be simulated so; give {fewest} starts or more, and one or more of the rest."
        )
    rng = np.random.default_rng(seed)
    blocks = [min(BLOCK, runs - done) for done in range(0, runs, BLOCK)]
    counted: dict[str, dict[str, float]] = {}
    for block in blocks:
        passes = world.draw(block, rng)
        for name, rates in _rates(passes).items():
            into = counted.setdefault(name, dict.fromkeys(rates, 0.0))
            for rate, value in rates.items():
                into[rate] += value * block / runs
    gate = _named(counted.pop("gate"))
    return {
        **gate,
        "rivals": {name: _named(rates) for name, rates in counted.items()},
        "runs": runs,
        "seed": seed,
        "world": asdict(world),
        "simulated": True,
    }


def _rates(passes: Floats) -> dict[str, dict[str, float]]:
    """Shares of the series of a block in which each rule raised each kind of alarm."""
    base = passes[:, 0]
    found: dict[str, dict[str, float]] = {name: {} for name in ("gate", *RIVALS)}
    for what, slower in _worlds(passes[:, 1]).items():
        gate = model.judge(np.median(base, -1), np.median(slower, -1))
        slow_profiles = np.asarray(gate.profiles == model.REGRESS)
        slow_cells = np.asarray(gate.cells == model.REGRESS)
        found["gate"][what] = _share(what, slow_profiles, slow_cells)
        for name, rule in RIVALS.items():
            cells = rule(base, slower)
            found[name][what] = _share(what, np.asarray(cells.any(-1)), cells)
    return found


def _worlds(candidate: Floats) -> dict[str, Floats]:
    """The candidate's passes with nothing changed, and with each slowdown of one profile and of one cell."""
    worlds = {"false": candidate}
    for slowdown in SLOWDOWNS:
        name = f"{slowdown:.0%}"
        worlds[f"profile {name}"] = slower = candidate.copy()
        slower[:, 0] += np.log1p(slowdown)
        worlds[f"cell {name}"] = slower = candidate.copy()
        slower[:, 0, :, 0] += np.log1p(slowdown)
    return worlds


def _share(what: str, profiles: Alarms, cells: Alarms) -> float:
    if what == "false":
        return float((profiles.any(-1) | cells.any((-1, -2))).mean())
    return float((profiles[:, 0] if what.startswith("profile") else cells[:, 0, 0]).mean())


def _named(rates: dict[str, float]) -> dict[str, Any]:
    names = [f"{slowdown:.0%}" for slowdown in SLOWDOWNS]
    return {
        "false_alarm_rate": round(rates["false"], 5),
        "detection_rate": {name: round(rates[f"profile {name}"], 5) for name in names},
        "cell_detection_rate": {name: round(rates[f"cell {name}"], 5) for name in names},
    }
