"""kvlab drift: what changed in a lab since its facts were accepted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from kvlab.cli.facts import ACCEPTED, INVENTORY, now
from kvlab.errors import KvlabError


@click.command("drift")
@click.option(
    "--accepted", type=click.Path(path_type=Path), default=ACCEPTED, show_default=True, help="Accepted facts."
)
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path), metavar="FILE", help="Compare recorded facts."
)
@INVENTORY
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(accepted: Path, facts_file: Path | None, inventory: Path | None, as_json: bool) -> None:
    """Compare a lab with its accepted facts: packages, firmware, settings, topology.

    Exit status 0: nothing changed. 1: something did. 2: something could not be compared.
    """
    from kvlab.doctor import drift, labfacts

    if not accepted.exists():
        raise KvlabError(f"no facts were accepted yet ({accepted} does not exist); run kvlab facts accept.")
    before = labfacts.read(accepted)
    if before.problems:
        raise KvlabError(f"{accepted} cannot be compared with: {before.problems[0]}")
    found = drift.compare(before, now(facts_file, inventory))
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=1))
    else:
        lines = [str(change) for change in found.changes]
        lines += [f"could not compare {unseen}" for unseen in found.unseen]
        click.echo("\n".join(lines) or f"nothing changed since {before.taken}")
    sys.exit(found.exit_code)
