"""The page: what results, verdicts and findings say, as one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import quantiles
from typing import Any

import jinja2
import msgspec

from kvlab.errors import KvlabError
from kvlab.report import figures, series, verdicts
from kvlab.report.drawing import Picture
from kvlab.report.load import Loaded
from kvlab.report.series import Cell, Key
from kvlab.report.verdicts import Recorded
from kvlab.ttft import claims, trend
from kvlab.ttft.claims import Claim
from kvlab.ttft.plan import Limits
from kvlab.ttft.result import Result
from kvlab.ttft.verdict import Verdict
from kvlab.whole_file import aside

RUNS = 200
"""Lines of the table of runs, at most."""
REASONS = 200


@dataclass(frozen=True)
class Report:
    """All that is written: the page and its pictures."""

    html: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Extra:
    """What is shown beside the results."""

    gate: Verdict | None = None
    findings: Sequence[Recorded] = ()


def build(loaded: Loaded, extra: Extra | None = None) -> Report:
    """The report of results; a stand-in's part is said at its top and in each figure."""
    extra = extra or Extra()
    newest = loaded.newest
    cells = series.cells(loaded.shown)
    found = _claims(loaded.shown)
    trends = trend.trends(loaded.past)
    pictures = figures.measured(cells, found, newest.simulated)
    history = figures.history(loaded.history, trends, newest.simulated)
    unproven = series.unproven(loaded.shown)
    html = _environment().get_template("page.html.j2").render(
        **_texts(),
        newest=newest,
        model=newest.plan.get("model") or newest.environment.get("workload.model") or "model unknown",
        plan=newest.plan.get("name") or "",
        shown=loaded.shown,
        starts=sum(len(result.starts) for result in loaded.shown),
        parts=sorted({part for result in loaded.shown for part in result.simulated_parts}),
        numbers=_numbers(found),
        judgements=verdicts.of_claims(found) + (verdicts.of_gate(extra.gate) if extra.gate else []),
        claims=[(verdicts.NAMES[c.kind], verdicts.quantity(c, c.value), verdicts.interval(c), c) for c in found],
        trends=[verdicts.trend(one) for one in trends],
        pictures=pictures,
        rows=[_row(key, cell) for key, cell in cells.items()],
        unproven=unproven[:REASONS],
        unproven_left=len(unproven) - REASONS,
        unproven_passes=sum(len(c.unproven) + c.untimed for c in cells.values()),
        passes=sum(c.total for c in cells.values()),
        history=history,
        runs=loaded.runs[:RUNS],
        runs_total=len(loaded.runs),
        findings=extra.findings,
    )  # fmt: skip
    return Report(html, [*pictures, *([history] if history else [])])


def write(report: Report, folder: Path) -> Path:
    """Write DIR/index.html and DIR/figures/*.png; the page's path. KvlabError when the folder cannot be written."""
    drawn = folder / "figures"
    try:
        drawn.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KvlabError(f"{folder} cannot be written ({error.strerror}); correct the path.") from None
    for picture in report.pictures:
        _write(drawn / f"{picture.name}.png", picture.png)
    _write(folder / "index.html", report.html.encode())
    return folder / "index.html"


def _write(path: Path, content: bytes) -> None:
    with aside(path, content, 0o644) as written:
        written.replace(path)


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kvlab.report", "template"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _texts() -> dict[str, str]:
    """Style sheet and script; the page allows the script by its hash, and nothing from outside."""
    folder = resources.files("kvlab.report") / "template"
    script = (folder / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "style": (folder / "page.css").read_text(encoding="utf-8"),
        "script": script,
        "script_sha256": digest,
    }


def _claims(results: Sequence[Result]) -> list[Claim]:
    """The claims of results, with the limits of the newest plan; none where no single request was measured hot."""
    if not any(one.series == "hot" and one.concurrency == 1 for result in results for one in result.passes):
        return []
    return claims.claims(results, msgspec.convert(results[-1].plan.get("limits", {}), Limits))


def _numbers(found: Sequence[Claim]) -> list[tuple[str, str, str, str]]:
    """The document's claims at the longest context: name, value, interval, where."""
    longest = {claim.kind: claim for claim in found if claim.kind != "implied_gb_s"}
    return [
        (
            verdicts.NAMES[claim.kind],
            verdicts.quantity(claim, claim.value),
            verdicts.interval(claim),
            f"at {claim.context:,} tokens" if claim.context is not None else claim.detail,
        )
        for claim in longest.values()
    ]


def _row(key: Key, cell: Cell) -> dict[str, Any]:
    """A line of the table of measurements; times in milliseconds, None where nothing is proven."""
    many = len(cell.proven) > 1
    return {
        **key._asdict(),
        "starts": len(cell.starts),
        "proven": len(cell.proven),
        "unproven": len(cell.unproven) + cell.untimed,
        "ttft": 1e3 * cell.ttft_s if cell.ttft_s is not None else None,
        "p95": 1e3 * quantiles(cell.proven, n=20, method="inclusive")[-1] if many else None,
        "spread": 1e2 * cell.spread if cell.spread is not None else None,
        "cpu": 1e3 * cell.cpu_s if cell.cpu_s is not None else None,
    }
