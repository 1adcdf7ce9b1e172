"""Verdicts as the page shows them: of a plan's limits on the claims, of the gate, and findings of checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvlab.errors import KvlabError
from kvlab.ttft.claims import Claim
from kvlab.ttft.trend import MIN_POINTS, Trend
from kvlab.ttft.verdict import CellVerdict, ProfileVerdict, Verdict

NAMES = {
    "speedup": "speed-up, s3-rdma over baseline",
    "crossover": "crossover, s3-rdma over baseline",
    "http_over_rdma": "TTFT, s3-http over s3-rdma",
    "client_cpu_saving": "client CPU, s3-rdma less than s3-http",
    "implied_gb_s": "implied rate",
}


@dataclass(frozen=True)
class Judgement:
    """One verdict: pass, fail, regress or inconclusive. `missing` says what a doubtful one lacks."""

    name: str
    verdict: str
    evidence: tuple[str, ...]
    missing: tuple[str, ...]
    simulated: bool


def of_claims(claims: Iterable[Claim]) -> list[Judgement]:
    """Those claims on which a limit was set."""
    return [_of_claim(claim) for claim in claims if claim.verdict]


def of_gate(found: Verdict) -> list[Judgement]:
    """The gate's verdict over all, then that of each profile."""
    compared = f"{', '.join(_few(found.candidate))} compared with {', '.join(_few(found.base))}"
    overall = Judgement("gate", found.verdict, (compared, *found.notes), found.missing, found.simulated)
    return [overall, *(_of_profile(profile, found.simulated) for profile in found.profiles)]


def gate(path: Path) -> Verdict:
    """What `kvlab gate --json` printed into a file. Raises KvlabError when it is something else."""
    try:
        return msgspec.convert(_decode(path), Verdict)
    except msgspec.ValidationError as error:
        raise KvlabError(f"{path} is not what kvlab gate --json printed ({error}); write it anew.") from None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a check as it was recorded; the doctor's are by host."""

    id: str
    severity: str
    status: str
    title: str
    evidence: list[str] | dict[str, list[str]]
    remedy: str
    simulated: bool | None = None

    @property
    def lines(self) -> list[str]:
        """The evidence line by line, each with its host where there is one."""
        if isinstance(self.evidence, list):
            return self.evidence
        return [f"{host}: {line}" for host, lines in self.evidence.items() for line in lines or ["-"]]


def findings(path: Path) -> list[Recorded]:
    """Findings of checks recorded in a file: a JSON list, or an object whose `findings` is one, as the doctor's.

    Raises KvlabError when it is something else.
    """
    content = _decode(path)
    listed = content.get("findings") if isinstance(content, dict) else content
    try:
        return msgspec.convert(listed, list[Recorded])
    except msgspec.ValidationError as error:
        raise KvlabError(f"{path} holds no findings of kvlab's checks ({error}); name their JSON.") from None


def quantity(claim: Claim, value: float | None) -> str:
    """A claim's figure, or an end of its interval, with its unit."""
    if value is None:
        return "none" if claim.kind == "crossover" else "unknown"
    match claim.kind:
        case "crossover":
            return f"{value:,.0f} tokens"
        case "client_cpu_saving":
            return f"{value:.1%}"
        case "implied_gb_s":
            return f"{value:.3g} GB/s"
        case _:
            return f"{value:.2f}\N{MULTIPLICATION SIGN}"


def interval(claim: Claim) -> str:
    """The 95 % interval in words; empty where there is none."""
    if claim.low is None:
        return ""
    return f"{quantity(claim, claim.low)} to {quantity(claim, claim.high)}"


def trend(found: Trend) -> str:
    """What is known of a profile's history, as a sentence."""
    if found.changes is None:
        return f"{found.profile}: {found.points} starts; change points are looked for from {MIN_POINTS} on."
    if not found.changes:
        return f"{found.profile}: one level over {found.points} starts."
    moves = "; ".join(f"{change.shift:+.1%} from {change.run} on" for change in found.changes)
    return f"{found.profile}: {moves} ({found.points} starts)."


def _of_claim(claim: Claim) -> Judgement:
    at = f" at {claim.context:,} tokens" if claim.context is not None else ""
    said = f"measured {quantity(claim, claim.value)}"
    if interval(claim):
        said += f", 95 % interval {interval(claim)}"
    evidence = [said]
    if claim.limit is not None:
        evidence.append(f"limit {quantity(claim, claim.limit)}")
    doubtful = claim.verdict == "inconclusive"
    if claim.detail and not doubtful:
        evidence.append(claim.detail)
    missing = (claim.detail or "more starts",) if doubtful else ()
    return Judgement(NAMES[claim.kind] + at, claim.verdict, tuple(evidence), missing, claim.simulated)


def _of_profile(profile: ProfileVerdict, simulated: bool) -> Judgement:
    base, candidate = profile.starts
    evidence = [f"starts: {base} of the base, {candidate} of the candidate"]
    if profile.shift is not None:
        within = (
            f", 95 % interval {profile.low:+.1%} to {profile.high:+.1%}"
            if profile.low is not None and profile.high is not None
            else ""
        )
        chance = f", p = {profile.p:.2g}" if profile.p is not None else ""
        evidence.append(f"TTFT moved by {profile.shift:+.1%}{within}{chance}")
    if profile.spread is not None:
        evidence.append(f"spread from start to start: {profile.spread:.1%}")
    if profile.detectable is not None:
        evidence.append(f"smallest slowdown that is found nine times in ten: {profile.detectable:.1%}")
    if profile.moved:
        evidence.append(f"stages that moved: {', '.join(profile.moved)}")
    worse = [_cell(cell) for cell in profile.cells if cell.verdict == "regress"]
    if worse:
        evidence.append(f"slower at {', '.join(worse)}")
    return Judgement(f"gate, {profile.profile}", profile.verdict, tuple(evidence), profile.missing, simulated)


def _cell(cell: CellVerdict) -> str:
    at_once = f", {cell.concurrency} at once" if cell.concurrency > 1 else ""
    by = f" ({cell.shift:+.1%})" if cell.shift is not None else ""
    return f"{cell.context:,} tokens{at_once}{by}"


def _few(names: Sequence[str], most: int = 5) -> list[str]:
    return [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)


def _decode(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise KvlabError(f"{path} cannot be read ({error.strerror}); correct the path.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KvlabError(f"{path} is not JSON ({error}); write it anew.") from None
