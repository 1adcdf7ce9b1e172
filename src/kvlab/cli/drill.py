"""kvlab drill: break the lab on purpose, and see whether the right check names it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kvlab.errors import KvlabError


@click.group("drill")
def command() -> None:
    """Break one thing at a time in the local lab that is up; the doctor's checks must name it."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """Name every drill: what it breaks, how, and which check must name it."""
    from kvlab.drills.catalogue import DRILLS

    listed = [drill.as_json() for drill in DRILLS.values()]
    rows = [f"{d['name']:28} {d['kind']:8} {d['expects']:8} {d['breaks']}" for d in listed]
    click.echo(json.dumps(listed, indent=1) if as_json else "\n".join(rows))


@command.command("run")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Every drill.")
@click.option("--ci", "ci", is_flag=True, help="The short ones that stand for the others.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the JSON to FILE after each drill; without --all, outcomes of other drills stay in it.",
)
def run(names: tuple[str, ...], everything: bool, ci: bool, as_json: bool, output: Path | None) -> None:
    """Run drills in the local lab, one after the other; everything is restored after each.

    Exit status 0: each was named by its check. 1: one was not named, or not restored. 2: one could not run.
    """
    from kvlab.drills import record
    from kvlab.drills.bench import Bench
    from kvlab.drills.catalogue import DRILLS, find
    from kvlab.drills.drill import COULD_NOT_RUN, MISSED, NAMED, Outcome
    from kvlab.drills.drill import run as run_one
    from kvlab.serving import lab as labs

    if bool(names) + everything + ci != 1:
        raise KvlabError("name one or more drills, or give --all or --ci; kvlab drill list shows them.")
    chosen = [find(name) for name in names] or [d for d in DRILLS.values() if everything or d.ci]
    found = labs.load()
    nothing = record.document(False, [])
    earlier = record.read(output) if output and output.exists() and not everything else nothing
    outcomes: list[Outcome] = []

    def document() -> dict[str, Any]:
        return record.document(found.simulated, outcomes, Path.cwd())

    with Bench(found, lambda line: click.echo(line, err=True)) as bench:
        for number, drill in enumerate(chosen, 1):
            outcome = run_one(drill, bench)
            outcomes.append(outcome)
            click.echo(f"{number}/{len(chosen)} {record.line(outcome)}", err=True)
            if output:
                record.write(record.joined(earlier, document()), output)
    if as_json:
        click.echo(json.dumps(document(), indent=1))
    else:
        click.echo(record.summary(outcomes, simulated=found.simulated))
    codes = {outcome.exit_code for outcome in outcomes}
    sys.exit(next((code for code in (MISSED, COULD_NOT_RUN) if code in codes), NAMED))
