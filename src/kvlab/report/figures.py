"""The figures: TTFT against context as in the source document's figure 4, what follows from it, and history."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kvlab.report import drawing, series
from kvlab.report.drawing import Picture
from kvlab.report.load import Point
from kvlab.report.series import Cell, Cells, Key
from kvlab.ttft.claims import Claim
from kvlab.ttft.trend import Trend

DOTS = 60
"""Passes drawn for a profile and context, at most."""
TOKENS = "context (tokens)"


def measured(cells: Cells, claims: Sequence[Claim], simulated: bool) -> list[Picture]:
    """Figures of the passes at the least concurrency; what was not measured has no figure."""
    concurrency = min((key.concurrency for key in cells), default=1)
    of_one = {key: cell for key, cell in cells.items() if key.concurrency == concurrency}
    draw: list[Callable[[], Picture | None]] = [
        lambda: _ttft(of_one, "hot", simulated),
        lambda: _speedup(of_one, concurrency, claims, simulated),
        lambda: _http_over_rdma(of_one, concurrency, claims, simulated),
        lambda: _cpu(of_one, simulated),
        lambda: _ttft(of_one, "cold", simulated),
    ]
    with drawing.style():
        return [picture for one in draw if (picture := one())]


def _ttft(cells: Cells, which: str, simulated: bool) -> Picture | None:
    found = {key: cell for key, cell in cells.items() if key.series == which}
    values = [1e3 * v for cell in found.values() for v in (*cell.proven, *cell.unproven)]
    if not values:
        return None
    figure, axis = drawing.axes(TOKENS, "TTFT (ms)", simulated)
    drawing.contexts(axis, (key.context for key in found))
    drawing.logarithmic(axis, min(values), max(values))
    names = series.profiles(found)
    for at, name in enumerate(names):
        of_profile = {key.context: cell for key, cell in found.items() if key.profile == name}
        _dots(axis, of_profile, name, 1.08 + 0.05 * at)
        _line(axis, {c: 1e3 * cell.ttft_s for c, cell in of_profile.items() if cell.ttft_s}, name)
    if any(cell.unproven for cell in found.values()):
        axis.plot([], [], "x", color=drawing.FLAG, markersize=5, label="not proven")
    drawing.legend(axis)
    lines = [
        f"{name} from {_ms(points[0][1])} at {points[0][0]:,} tokens to {_ms(points[-1][1])} at {points[-1][0]:,}"
        for name in names
        if (points := [(k.context, c.ttft_s) for k, c in found.items() if k.profile == name and c.ttft_s])
    ]
    title = "TTFT against context" if which == "hot" else "The first pass: computing and storing"
    says = (
        "Time to the first token of hot passes, log scale. "
        if which == "hot"
        else "Time to the first token of cold passes, which find nothing in the cache and store what they compute. "
    )
    return drawing.picture(
        figure,
        f"ttft-{which}",
        title,
        says
        + f"Dots are passes{_drawn(found)}; lines join the geometric means of the starts' medians. Crosses are "
        "passes that are not proven; no line and no number counts them.",
        f"{title}, both axes logarithmic. "
        + ("Means: " + "; ".join(lines) + "." if lines else "No pass is proven, so there is no line."),
    )


def _speedup(cells: Cells, concurrency: int, claims: Sequence[Claim], simulated: bool) -> Picture | None:
    found = {
        name: points
        for name in series.profiles(cells)
        if name != "baseline" and (points := series.ratio(cells, "baseline", name, concurrency))
    }
    return _ratios(
        found,
        simulated,
        [claim for claim in claims if claim.kind == "speedup"],
        name="speedup",
        ylabel="TTFT of baseline / profile",
        title="Speed-up over computing the prompt anew",
        caption="TTFT of the baseline divided by that of the profile, hot passes. Above 1 the cache wins.",
    )


def _http_over_rdma(
    cells: Cells, concurrency: int, claims: Sequence[Claim], simulated: bool
) -> Picture | None:
    points = series.ratio(cells, "s3-http", "s3-rdma", concurrency)
    return _ratios(
        {"s3-rdma": points} if points else {},
        simulated,
        [claim for claim in claims if claim.kind == "http_over_rdma"],
        name="http-over-rdma",
        ylabel="TTFT of s3-http / s3-rdma",
        title="S3 over HTTP against S3 over RDMA",
        caption="TTFT of s3-http divided by that of s3-rdma, hot passes. Above 1 RDMA wins.",
    )


def _ratios(
    found: Mapping[str, Mapping[int, float]],
    simulated: bool,
    claims: Sequence[Claim],
    *,
    name: str,
    ylabel: str,
    title: str,
    caption: str,
) -> Picture | None:
    values = [value for points in found.values() for value in points.values()]
    if not values:
        return None
    limit = next((claim.limit for claim in claims if claim.limit), None)
    band = [(c.context, c.low, c.high) for c in claims if c.low and c.high and c.context in found["s3-rdma"]]
    values += [end for _, low, high in band for end in (low, high)]
    figure, axis = drawing.axes(TOKENS, ylabel, simulated)
    drawing.contexts(axis, (context for points in found.values() for context in points))
    drawing.logarithmic(axis, min(1.0, *values), max(1.0, limit or 1.0, *values))
    axis.axhline(1, color=drawing.MUTED, linewidth=0.9)
    for profile, points in found.items():
        _line(axis, points, profile)
    if band:
        at, low, high = zip(*band, strict=True)
        axis.fill_between(at, low, high, color=drawing.colour("s3-rdma"), alpha=0.2, linewidth=0)
        caption += " The band is the 95 % interval of s3-rdma over starts."
    else:
        caption += " There are too few starts for an interval."
    if limit:
        axis.axhline(limit, color=drawing.FLAG, linewidth=0.9, linestyle="--", label=f"limit {limit:g}")
        caption += f" The dashed line is the plan's limit at the longest context, {limit:g}."
    drawing.legend(axis)
    said = [
        f"{profile} {points[min(points)]:.2f} at {min(points):,} tokens, {points[max(points)]:.2f} at {max(points):,}"
        for profile, points in found.items()
    ]
    return drawing.picture(
        figure,
        name,
        title,
        caption,
        f"{title}: {'; '.join(said)}.",
    )


def _cpu(cells: Cells, simulated: bool) -> Picture | None:
    found = {
        name: points
        for name in ("s3-http", "s3-rdma", "file")
        if (
            points := {
                key.context: 1e3 * cell.cpu_s
                for key, cell in cells.items()
                if (key.profile, key.series) == (name, "hot") and cell.cpu_s
            }
        )
    }
    values = [value for points in found.values() for value in points.values()]
    if not values:
        return None
    figure, axis = drawing.axes(TOKENS, "client CPU (ms a pass)", simulated)
    drawing.contexts(axis, (context for points in found.values() for context in points))
    drawing.logarithmic(axis, min(values), max(values))
    for name, points in found.items():
        _line(axis, points, name)
    drawing.legend(axis)
    said = [
        f"{name} {_plain(points[max(points)])} ms at {max(points):,} tokens" for name, points in found.items()
    ]
    return drawing.picture(
        figure,
        "client-cpu",
        "Client CPU",
        "CPU time of vLLM and LMCache during a hot pass, mean over the starts, log scale.",
        f"Client CPU time of a hot pass against context: {'; '.join(said)}.",
    )


def history(points: Sequence[Point], trends: Sequence[Trend], simulated: bool) -> Picture | None:
    """TTFT of each start in order of time; None for fewer than two starts of every profile."""
    names = [n for n in drawing.SERIES if sum(point.profile == n for point in points) > 1]
    if not names:
        return None
    context = points[0].context
    with drawing.style():
        figure, axis = drawing.axes(
            "starts of a profile, oldest first", f"TTFT at {context:,} tokens (ms)", simulated
        )
        shown = [1e3 * point.ttft_s for point in points if point.profile in names]
        drawing.logarithmic(axis, min(shown), max(shown))
        said = []
        for name in names:
            of_profile = [point for point in points if point.profile == name]
            values = [1e3 * point.ttft_s for point in of_profile]
            axis.plot(
                range(1, len(values) + 1), values, drawing.marker(name), color=drawing.colour(name),
                label=name, markersize=3.2 if len(values) < 200 else 1.6, alpha=0.75, markeredgewidth=0,
            )  # fmt: skip
            moved = [c for trend in trends if trend.profile == name for c in trend.changes or ()]
            for change in moved:
                at = next(
                    (i for i, p in enumerate(of_profile) if (p.run, p.at) == (change.run, change.at)), None
                )
                if at is not None:
                    axis.axvline(at + 0.5, color=drawing.colour(name), linewidth=1, linestyle="--")
            shifts = ", ".join(f"{change.shift:+.1%} from {change.run} on" for change in moved)
            said.append(
                f"{name}: {len(values)} starts, {_range(values)}"
                + (f", changed by {shifts}" if shifts else "")
            )
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        drawing.legend(axis)
        return drawing.picture(
            figure,
            "history",
            "History",
            f"Median of the hot passes at {context:,} tokens for each start of this environment, in order of time, "
            "from the oldest to the newest. Dashed lines, in a profile's colour, are change points.",
            f"TTFT of each start in order of time. {'; '.join(said)}.",
        )


def _dots(axis: Axes, found: Mapping[int, Cell], profile: str, aside: float) -> None:
    """The passes of a profile, beside the context by a factor so that profiles do not hide each other."""
    proven = [(context * aside, v) for context, cell in found.items() for v in _some(cell.proven, context)]
    unproven = [
        (context * aside, v) for context, cell in found.items() for v in _some(cell.unproven, context)
    ]
    axis.plot(
        [at for at, _ in proven], [1e3 * v for _, v in proven], drawing.marker(profile),
        color=drawing.colour(profile), markersize=2.6, alpha=0.45, markeredgewidth=0,
    )  # fmt: skip
    axis.plot(
        [at for at, _ in unproven], [1e3 * v for _, v in unproven], "x",
        color=drawing.FLAG, markersize=4.5, alpha=0.9, markeredgewidth=1,
    )  # fmt: skip


def _line(axis: Axes, points: Mapping[int, float], profile: str) -> None:
    if points:
        axis.plot(
            list(points), list(points.values()), f"-{drawing.marker(profile)}",
            color=drawing.colour(profile), label=profile,
        )  # fmt: skip


def _some(values: list[float], seed: int) -> list[float]:
    """At most DOTS of the values, the same ones each time."""
    return values if len(values) <= DOTS else random.Random(seed).sample(values, DOTS)


def _drawn(found: Mapping[Key, Cell]) -> str:
    most = max(max(len(cell.proven), len(cell.unproven)) for cell in found.values())
    return f" ({DOTS} drawn by lot where there are more)" if most > DOTS else ""


def _ms(seconds: float | None) -> str:
    return f"{_plain(1e3 * (seconds or 0))} ms"


def _range(values: Sequence[float]) -> str:
    return f"{_plain(min(values))} to {_plain(max(values))} ms"


def _plain(value: float) -> str:
    """Three digits, and never an exponent for what is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
