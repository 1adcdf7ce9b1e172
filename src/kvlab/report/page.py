"""The page: what results, verdicts and findings say, as one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from statistics import quantiles
from typing import Any

import jinja2

from kvlab.checks.finding import Finding
from kvlab.errors import KvlabError
from kvlab.report import figures, series
from kvlab.report.drawing import Picture
from kvlab.report.load import Loaded, Run
from kvlab.report.series import Cell, Cells, Key
from kvlab.report.verdicts import Judged
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

    judged: Judged = field(default_factory=Judged)
    findings: Sequence[Finding] = ()


def build(loaded: Loaded, extra: Extra | None = None) -> Report:
    """The report of results; a stand-in's part is said at its top and in each figure."""
    extra = extra or Extra()
    newest = loaded.newest
    cells = series.cells(loaded.shown)
    limits = newest.plan.get("limits")
    pictures = figures.measured(cells, newest.simulated, limits if isinstance(limits, dict) else {})
    history = figures.history(loaded.history, extra.judged.changes, newest.simulated)
    unproven = series.unproven(loaded.shown)
    html = _environment().get_template("page.html.j2").render(
        **_texts(),
        newest=newest,
        model=newest.plan.get("model") or newest.environment.get("workload.model") or "model unknown",
        plan=newest.plan.get("name") or "",
        shown=loaded.shown,
        starts=sum(len(result.starts) for result in loaded.shown),
        parts=sorted({part for result in loaded.shown for part in result.simulated_parts}),
        numbers=_numbers(cells),
        judged=extra.judged,
        pictures=pictures,
        rows=[_row(key, cell) for key, cell in cells.items()],
        unproven=unproven[:REASONS],
        unproven_left=len(unproven) - REASONS,
        unproven_passes=sum(len(c.unproven) + c.untimed for c in cells.values()),
        passes=sum(c.total for c in cells.values()),
        history=history,
        runs=_few_runs(loaded.runs),
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


def _few_runs(runs: Sequence[Run]) -> Sequence[Run]:
    return runs[:RUNS]


def _numbers(cells: Cells) -> list[tuple[str, str, str]]:
    """The document's quantities at the longest context that has them: name, value, where."""
    concurrency = min((key.concurrency for key in cells), default=1)
    found = []
    for name, over, under in (
        ("speed-up, s3-rdma over baseline", "baseline", "s3-rdma"),
        ("s3-http over s3-rdma", "s3-http", "s3-rdma"),
    ):
        points = series.ratio(cells, over, under, concurrency)
        if points:
            longest = max(points)
            found.append((name, f"{points[longest]:.2f}\N{MULTIPLICATION SIGN}", f"at {longest:,} tokens"))
    saving = {
        key.context: 1 - rdma.cpu_s / cell.cpu_s
        for key, cell in cells.items()
        if (key.profile, key.series, key.concurrency) == ("s3-http", "hot", concurrency)
        and cell.cpu_s
        and (rdma := cells.get(key._replace(profile="s3-rdma")))
        and rdma.cpu_s is not None
    }
    if saving:
        longest = max(saving)
        found.append(
            ("client CPU, s3-rdma less than s3-http", f"{saving[longest]:.0%}", f"at {longest:,} tokens")
        )
    return found


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
