"""kvlab report: results of TTFT runs as a page with figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvlab.cli import _store


@click.command("report")
@click.argument("results", nargs=-1, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="Where index.html and figures/ are written.",
)  # fmt: skip
@click.option("--gate", type=click.Path(path_type=Path), help="What `kvlab gate --json` printed.")
@click.option("--history", "where", metavar="WHERE", help="Runs of a folder or s3://bucket/prefix too.")
@click.option("--findings", type=click.Path(path_type=Path), help="Recorded findings of checks, JSON.")
@_store.options
def command(
    results: tuple[Path, ...],
    folder: Path,
    gate: Path | None,
    findings: Path | None,
    where: str | None,
    **store: Any,
) -> None:
    """Write a page about results: files, or folders of them.

    The newest run decides what is measured: the figures show its passes and those of runs of the same environment,
    commit and stack. Older runs of the environment are its history; others are only listed.
    """
    from kvlab.cli import _history
    from kvlab.report import load, page, verdicts

    if not results and where is None:
        raise click.UsageError("name RESULT files or folders, or a --history")
    read = [*results, *([_history.of(where, **store).folder()] if where else [])]
    extra = page.Extra(
        gate=verdicts.gate(gate) if gate else None,
        findings=verdicts.findings(findings) if findings else (),
    )
    click.echo(page.write(page.build(load.load(read), extra), folder))
