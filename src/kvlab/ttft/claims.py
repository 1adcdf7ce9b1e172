"""The source document's claims as figures of a run, with intervals over its starts, and a plan's limits on them.

A limit is kept (pass) or broken (fail) only when the whole interval says so. Judged are single requests (concurrency
1) whose passes are proven. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from kvlab.errors import KvlabError
from kvlab.ttft import samples
from kvlab.ttft.bootstrap import MIN_STARTS, interval, resampled
from kvlab.ttft.model import mean
from kvlab.ttft.plan import Limits
from kvlab.ttft.result import NIC_GB_S, Result
from kvlab.ttft.samples import CPU, PAYLOAD, TTFT, Cell
from kvlab.ttft.variance import Floats

Kind = Literal["speedup", "crossover", "http_over_rdma", "client_cpu_saving", "implied_gb_s"]
SAME_PAYLOAD = 0.05
"""The same chunks are the same bytes in a store's log, and differ by their headers in a NIC's counts."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One figure with its 95 % interval; None is unknown, and for a crossover `high` None is "no crossover".

    `context` is None for the crossover, whose value is one: the shortest from which on s3-rdma beats the baseline.
    `verdict` is empty where the plan sets no limit.
    """

    kind: Kind
    profile: str
    context: int | None
    value: float | None
    low: float | None
    high: float | None
    limit: float | None
    verdict: Literal["", "pass", "fail", "inconclusive"]
    detail: str
    simulated: bool


@dataclass(frozen=True)
class _Figure:
    """A figure by context: its value, its replicates (resamples, C), and why it may be unknown, by context."""

    value: Floats
    replicates: Floats
    why: Sequence[str]


class _Measured:
    """The start samples of a run by profile and context, and one set of resamples of each."""

    def __init__(self, results: Sequence[Result], seed: int) -> None:
        self.found = samples.of(results, (TTFT, CPU, PAYLOAD))
        # A run that was stopped may lack the longest context, and with it what the limits speak of.
        planned = {Cell(int(context)) for result in results for context in result.plan.get("contexts", [])}
        taken = {cell for cell in samples.cells_of(self.found) if cell.concurrency == 1}
        if not taken:
            raise KvlabError("the runs hold no hot pass of a single request; measure with kvlab ttft run.")
        self.cells = sorted(planned | taken)
        self.rng = np.random.default_rng(seed)

    def values(self, profile: str, what: str) -> Floats:
        return np.asarray(samples.array(self.found, [profile], self.cells, what)[0])

    def ratio(self, above: str, below: str) -> _Figure:
        """Geometric mean TTFT of one profile over that of another."""
        logs = [np.log(self.values(profile, TTFT)) for profile in (above, below)]
        first, second = (resampled(values, self.rng) for values in logs)
        with_both = [np.isfinite(values).sum(0) for values in logs]
        return _Figure(
            np.asarray(np.exp(mean(logs[0], 0) - mean(logs[1], 0))),
            np.exp(first - second),
            [_few({above: a, below: b}) for a, b in zip(*with_both, strict=True)],
        )

    def cpu_saving(self) -> _Figure:
        """1 - CPU seconds of s3-rdma over those of s3-http, where both moved the same bytes."""
        http, rdma = self.values("s3-http", CPU), self.values("s3-rdma", CPU)
        moved = [mean(self.values(profile, PAYLOAD), 0) for profile in ("s3-http", "s3-rdma")]
        same = (moved[0] > 0) & (np.abs(moved[1] - moved[0]) <= SAME_PAYLOAD * moved[0])
        counts = [np.isfinite(values).sum(0) for values in (http, rdma)]
        why = [
            _few({"s3-http": h, "s3-rdma": r}, "client CPU")
            or ("" if equal else "s3-http and s3-rdma did not move the same bytes")
            for h, r, equal in zip(*counts, same, strict=True)
        ]
        used = mean(http, 0)
        first, second = (np.maximum(resampled(values, self.rng), 0) for values in (http, rdma))
        return _Figure(
            np.where(same, 1 - _over(mean(rdma, 0), used), np.nan),
            np.where(same, 1 - _over(second, first), np.nan),
            why,
        )

    def rate(self, profile: str) -> _Figure:
        """Payload over TTFT, 1e9 bytes a second: a lower bound of what the path carried, as TTFT is more than it."""
        speed: Floats = self.values(profile, PAYLOAD) / self.values(profile, TTFT) / 1e9
        starts = np.isfinite(speed).sum(0)
        return _Figure(
            mean(speed, 0),
            np.maximum(resampled(speed, self.rng), 0),
            [_few({profile: n}, "bytes") for n in starts],
        )


def claims(results: Sequence[Result], limits: Limits | None = None, *, seed: int = 1) -> list[Claim]:
    """The claims of runs of one environment, in the document's order, by rising context.

    An implied rate over what the NICs carry, where the environment says that, is not to be believed. A limit holds at
    the longest context. Raises KvlabError when the runs are of different environments, or hold no hot pass.
    """
    if len({(result.fingerprint, result.simulated) for result in results}) != 1:
        raise KvlabError("the runs are of different environments; take claims from runs of one.")
    limits = limits or Limits()
    carried = results[0].environment.get(NIC_GB_S)
    nic_gb_s = float(carried) if carried is not None else None
    measured, simulated = _Measured(results, seed), results[0].simulated
    profiles = {sample.profile for sample in measured.found}
    found: list[Claim] = []

    def add(kind: Kind, profile: str, figure: _Figure, least: float | None) -> None:
        last = len(measured.cells) - 1
        found.extend(
            _claim(kind, profile, cell, c, figure, least if c == last else None, simulated)
            for c, cell in enumerate(measured.cells)
        )

    speedup = measured.ratio("baseline", "s3-rdma")
    if {"baseline", "s3-rdma"} <= profiles or limits.speedup_longest_min or limits.crossover_exists:
        add("speedup", "s3-rdma", speedup, limits.speedup_longest_min)
        found.append(_crossover(measured.cells, speedup, bool(limits.crossover_exists), simulated))
    if {"s3-http", "s3-rdma"} <= profiles or limits.http_over_rdma_longest_min:
        add(
            "http_over_rdma",
            "s3-rdma",
            measured.ratio("s3-http", "s3-rdma"),
            limits.http_over_rdma_longest_min,
        )
    if {"s3-http", "s3-rdma"} <= profiles or limits.client_cpu_saving_min is not None:
        add("client_cpu_saving", "s3-rdma", measured.cpu_saving(), limits.client_cpu_saving_min)
    for profile in sorted(profiles & {"s3-http", "s3-rdma"}):
        figure = measured.rate(profile)
        found.extend(
            _believable(_claim("implied_gb_s", profile, cell, c, figure, None, simulated), nic_gb_s)
            for c, cell in enumerate(measured.cells)
        )
    return found


def _claim(
    kind: Kind, profile: str, cell: Cell, c: int, figure: _Figure, least: float | None, simulated: bool
) -> Claim:
    low, high = interval(figure.replicates[:, c])
    verdict: Literal["", "pass", "fail", "inconclusive"] = ""
    if least is not None:
        verdict = "pass" if low >= least else "fail" if high < least else "inconclusive"
    detail = figure.why[c]
    if verdict == "inconclusive" and not detail:
        detail = f"the limit {least:g} lies within the interval; measure more starts"
    return Claim(
        kind=kind,
        profile=profile,
        context=cell.context,
        value=_known(figure.value[c]),
        low=_known(low),
        high=_known(high),
        limit=least,
        verdict=verdict,
        detail=detail,
        simulated=simulated,
    )


def _crossover(cells: Sequence[Cell], speedup: _Figure, asked: bool, simulated: bool) -> Claim:
    contexts = np.array([cell.context for cell in cells], dtype=float)
    value = float(_first(speedup.value[None], contexts)[0])
    low, high = interval(_first(speedup.replicates, contexts))
    detail = next(filter(None, speedup.why), "")
    verdict: Literal["", "pass", "fail", "inconclusive"] = ""
    if asked:
        verdict = "pass" if np.isfinite(high) else "fail" if np.isposinf(low) else "inconclusive"
    if not detail:
        shorter = contexts[contexts < value]
        if not np.isfinite(value):
            detail = f"s3-rdma does not win at {contexts[-1]:.0f} tokens, the longest context"
        elif shorter.size:
            detail = f"s3-rdma wins from between {shorter[-1]:.0f} and {value:.0f} tokens on"
        else:
            detail = f"s3-rdma wins from the shortest context on, {value:.0f} tokens"
    return Claim(
        kind="crossover",
        profile="s3-rdma",
        context=None,
        value=_known(value),
        low=_known(low),
        high=_known(high),
        limit=None,
        verdict=verdict,
        detail=detail,
        simulated=simulated,
    )


def _first(speedup: Floats, contexts: Floats) -> Floats:
    """For each row (N, C) the context from which on all are over 1: infinite where the last is not, NaN unknown."""
    wins = np.logical_and.accumulate((speedup > 1)[:, ::-1], axis=1)[:, ::-1]
    first = np.where(wins.any(1), contexts[wins.argmax(1)], np.inf)
    return np.where(np.isnan(speedup).any(1), np.nan, first)


def _believable(claim: Claim, nic_gb_s: float | None) -> Claim:
    """A rate beside what the NICs carry; one that they cannot carry was not carried by them."""
    if nic_gb_s is None or claim.value is None:
        return claim
    if claim.low is not None and claim.low > nic_gb_s:
        detail = f"more than the {nic_gb_s:g} GB/s that the NICs carry: the bytes or the clock are wrong"
        return msgspec.structs.replace(claim, limit=nic_gb_s, verdict="fail", detail=detail)
    share = f"{claim.value / nic_gb_s:.1%} of the {nic_gb_s:g} GB/s that the NICs carry"
    return msgspec.structs.replace(claim, detail="; ".join(filter(None, (claim.detail, share))))


def _few(counts: dict[str, int], what: str = "TTFT") -> str:
    lacking = [f"{profile} has {n}" for profile, n in counts.items() if n < MIN_STARTS]
    if not lacking:
        return ""
    return f"{' and '.join(lacking)} of {MIN_STARTS} starts with proven {what}; measure more"


def _over(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0))


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
