"""kvlab report: results of TTFT runs as a page with figures."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path),
    help="Where index.html and figures/ are written.",
)  # fmt: skip
@click.option("--gate", type=click.Path(path_type=Path), help="What `kvlab gate --json` printed.")
@click.option("--findings", type=click.Path(path_type=Path), help="Recorded findings of checks, JSON.")
def command(results: tuple[Path, ...], folder: Path, gate: Path | None, findings: Path | None) -> None:
    """Write a page about results: files, or folders of them.

    The newest run decides what is measured: the figures show its passes and those of runs of the same environment,
    commit and stack. Older runs of the environment are its history; others are only listed.
    """
    from kvlab.report import load, page, verdicts

    extra = page.Extra(
        gate=verdicts.gate(gate) if gate else None,
        findings=verdicts.findings(findings) if findings else (),
    )
    click.echo(page.write(page.build(load.load(results), extra), folder))
