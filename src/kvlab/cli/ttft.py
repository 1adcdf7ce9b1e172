"""kvlab ttft: measure time to first token by a plan, and take over what other tools measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kvlab.cli import _store
from kvlab.cli._ttft_history import command as history_command
from kvlab.errors import KvlabError


@click.group("ttft")
def command() -> None:
    """Measure time to first token, pass by pass, each with the proof of what it was."""


command.add_command(history_command)


@command.command("run")
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Result file; default: .lab/ttft/NAME-TIME.json."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --output, or add --starts to it.")
@click.option("--starts", type=click.IntRange(min=1), help="Starts of each profile, in place of the plan's.")
@click.option("--profile", "only", multiple=True, metavar="NAME", help="Measure only this one; repeatable.")
@click.option(
    "--history", "where", metavar="WHERE", help="Keep the run there too: a folder or s3://bucket/prefix."
)
@_store.options
def run(
    plan: Path,
    output: Path | None,
    resume: bool,
    starts: int | None,
    only: tuple[str, ...],
    where: str | None,
    **store: Any,
) -> None:
    """Run PLAN (see thresholds/) in the lab that is up, and write the result file after each pass.

    Exit status 0: measured, and every pass is proven. 1: measured, but some passes are not proven. 2: it could not
    be measured. 130: interrupted. What was measured is kept in each case.
    """
    from kvlab.cli import _history, _progress, _ttft

    kept = (
        _history.of(where, **store) if where else None
    )  # an address that is wrong is found before measuring
    with _progress.shown() as progress:
        result, path = _ttft.run(
            plan,
            output,
            resume=resume,
            starts=starts,
            only=only,
            tell=progress.tell,
            progress=progress.show,
        )
    if kept is not None:
        _tell(f"kept in the history as {kept.add(result)}")
    unproven = [p for p in result.passes if not p.proven]
    click.echo(_ttft.table(result))
    click.echo(f"{path}: {len(result.passes)} passes, {len(unproven)} not proven" + _label(result.simulated))
    if unproven:
        click.echo(f"kvlab: not proven: {unproven[0].reasons[0]}", err=True)
        sys.exit(1)


@command.command("claims")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option(
    "--plan", type=click.Path(path_type=Path), help="Limits to judge by; default: the run's own plan."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def claims(results: tuple[Path, ...], plan: Path | None, as_json: bool) -> None:
    """The document's claims for finished runs: figures with intervals, and a plan's limits on them.

    Exit status 0: every limit is kept. 1: one is broken. 3: one is undecided. 2: a file is unusable.
    """
    from kvlab.cli import _ttft

    text, code = _ttft.claims(results, plan, as_json=as_json)
    click.echo(text)
    sys.exit(code)


@command.command("import")
@click.argument("kind", type=click.Choice(["vllm", "nixlbench"]))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--profile", default="s3-rdma", show_default=True, help="The profile that was measured.")
@click.option("--simulated/--real", required=True, help="Whether a stand-in took part: the tools do not say.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Result file.")
def import_(kind: str, file: Path, profile: str, simulated: bool, output: Path) -> None:
    """Take over a result of `vllm bench serve` (detailed JSON) or the table nixlbench printed, marked unproven."""
    from kvlab.ttft import imports
    from kvlab.ttft import result as results

    if not file.exists():
        raise KvlabError(f"there is no file {file}; name what the tool wrote.")
    found = (imports.vllm_serve if kind == "vllm" else imports.nixlbench)(file, profile, simulated=simulated)
    results.write(found, output)
    click.echo(f"{output}: {len(found.passes)} passes, none of them proven{_label(simulated)}")


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _label(simulated: bool) -> str:
    return " (simulated)" if simulated else ""
