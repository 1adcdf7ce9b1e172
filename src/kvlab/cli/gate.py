"""kvlab gate: has TTFT regressed between two runs, and how far can that verdict be trusted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import click

from kvlab.cli import _store

CALIBRATION = Path(".lab/state/ttft-calibration.json")


class _Gate(click.Group):
    """`kvlab gate BASE CANDIDATE` is the word `compare` left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["compare", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Gate, options_metavar="", subcommand_metavar="[BASE CANDIDATE | COMMAND] [OPTIONS]")
def command() -> None:
    """Judge whether TTFT has regressed.

    kvlab gate BASE CANDIDATE compares two runs; see kvlab gate compare --help.
    """


@command.command()
@click.argument("sides", nargs=-1, required=True, metavar="[BASE] CANDIDATE")
@click.option(
    "--history", "where", metavar="WHERE", help="A folder or s3://bucket/prefix of runs, in place of BASE."
)
@click.option(
    "--by", type=click.Choice(["commit", "stack", "driver"]),
    help="With --history: BASE and CANDIDATE are two of its commits, stacks or drivers.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--nightly", is_flag=True, help="One start or more against ten or more of a history.")
@click.option(
    "--across", multiple=True, metavar="KEY", help="Changed on purpose: versions, driver.x, ...; repeatable."
)
@click.option(
    "--calibration", type=click.Path(path_type=Path), help=f"Default: {CALIBRATION}, where there is one."
)
@_store.options
def compare(
    sides: tuple[str, ...],
    where: str | None,
    by: Literal["commit", "stack", "driver"] | None,
    as_json: bool,
    nightly: bool,
    across: tuple[str, ...],
    calibration: Path | None,
    endpoint: str | None,
    secrets_file: Path | None,
    ca_bundle: Path | None,
) -> None:
    """Compare the runs in CANDIDATE with those in BASE: result files, or folders of them.

    Of a folder as BASE, or a history, the newest runs of the candidate's environment are used, and its trend is shown.
    `--history WHERE --by stack A B` compares the runs of a history that were measured with two stacks.

    Exit status 0: pass. 1: regression. 2: a file is unusable. 3: inconclusive.
    """
    from kvlab.cli import _gate, _history
    from kvlab.ttft import calibration as calibrations
    from kvlab.ttft import gate, model, runs, selection, trend

    kept = _history.of(where, endpoint, secrets_file, ca_bundle) if where else None
    history, after = _gate.sides(sides, kept, by, across)
    if by:
        across = (*across, *selection.ACROSS[by])
    known = calibration or (CALIBRATION if CALIBRATION.exists() else None)
    found = gate.compare(
        history[-runs.WINDOW :],
        after,
        rule=model.NIGHTLY if nightly else model.PULL_REQUEST,
        across=across,
        calibration=calibrations.read(known) if known else None,
    )
    looks_back = not by and (kept is not None or Path(sides[0]).is_dir())
    trends = trend.trends([*history, *after]) if looks_back and found.profiles else []
    if as_json:
        click.echo(json.dumps({**found.as_json(), "trends": _gate.plain(trends)}))
    else:
        click.echo("\n".join([*_gate.verdict_lines(found), *_gate.trend_lines(trends)]))
    sys.exit(found.exit_code)


@command.command()
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), default=CALIBRATION, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate(results: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Learn from runs between which nothing changed how far the lab spreads, and what a gate can see there."""
    from kvlab.cli import _gate
    from kvlab.ttft import calibration as calibrations
    from kvlab.ttft import runs

    found = calibrations.calibrate([result for path in results for result in runs.read(path)])
    calibrations.write(found, output)
    if as_json:
        click.echo(json.dumps(_gate.plain(found)))
    else:
        click.echo("\n".join([*_gate.calibration_lines(found), f"written to {output}"]))


@command.command()
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
@click.option("--runs", default=2000, show_default=True, help="Series to draw.")
@click.option("--seed", default=1, show_default=True)
@click.option("--starts", default=5, show_default=True, help="Starts a side.")
@click.option("--start-spread", default=0.03, show_default=True, help="Between starts; a share of the TTFT.")
@click.option("--pass-noise", default=0.03, show_default=True, help="Between passes of one start.")
@click.option("--uneven", default=1.0, show_default=True, help="Times the start spread, for one profile.")
def simulate(
    as_json: bool, runs: int, seed: int, starts: int, start_spread: float, pass_noise: float, uneven: float
) -> None:
    """False alarms and detection of the gate, and of other rules, on synthetic series (simulated)."""
    from kvlab.ttft import simulate as simulation

    world = simulation.World(starts=starts, start_spread=start_spread, pass_noise=pass_noise, uneven=uneven)
    found = simulation.simulate(world, runs=runs, seed=seed)
    click.echo(
        f"{runs} synthetic series, {starts} starts a side, {world.profiles} profiles x {world.contexts} contexts"
    )
    click.echo(
        f"{'rule':24}{'false alarms':>14}{'profile +10 %':>15}{'+20 %':>8}{'cell +10 %':>12}{'+20 %':>8}"
    )
    for name, rates in {"gate": found, **found["rivals"]}.items():
        click.echo(_row(name, rates))
    if as_json:
        click.echo(json.dumps(found))


def _row(name: str, rates: dict[str, Any]) -> str:
    profile, cell = rates["detection_rate"], rates["cell_detection_rate"]
    return (
        f"{name:24}{rates['false_alarm_rate']:14.2%}{profile['10%']:15.2%}{profile['20%']:8.1%}"
        f"{cell['10%']:12.2%}{cell['20%']:8.1%}"
    )
