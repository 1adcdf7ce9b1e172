"""kvlab facts: record a lab so that it can be judged elsewhere or compared later."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvlab.errors import KvlabError

if TYPE_CHECKING:
    from kvlab.doctor.labfacts import LabFacts

ACCEPTED = Path(".lab/accepted-facts.json")
"""Where `kvlab facts accept` keeps a lab's accepted facts when no other file is named."""

INVENTORY = click.option(
    "-i", "--inventory", type=click.Path(path_type=Path), help="Inventory of the lab. Default: the local lab."
)


@click.group()
def command() -> None:
    """Record the facts of a lab, and accept them as what it should be."""


@command.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where to write."
)
@INVENTORY
@click.option("--anonymize", is_flag=True, help="Replace secrets, addresses and host names.")
@click.option(
    "--round-trip", is_flag=True, help="Also move bytes through NIXL under a key prefix of its own."
)
def collect(output: Path, inventory: Path | None, anonymize: bool, round_trip: bool) -> None:
    """Record a lab in FILE, for `kvlab doctor --facts FILE`.

    Exit status 0: all of it was seen. 2: something could not be looked at; the rest is recorded.
    """
    from kvlab.doctor import anonymize as names
    from kvlab.doctor import collect as collector
    from kvlab.doctor import labfacts

    facts = collector.lab(inventory, tell=lambda line: click.echo(line, err=True), round_trip=round_trip)
    if anonymize:
        facts = names.anonymize(facts, _known_secrets())
    labfacts.write(facts, output)
    click.echo(f"wrote {output}: {len(facts.hosts)} host(s), {sum(map(len, facts.hosts.values()))} topics")
    for problem in facts.problems:
        click.echo(f"could not look at {problem}", err=True)
    sys.exit(2 if facts.problems else 0)


@command.command()
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path), metavar="FILE", help="Accept recorded facts."
)
@INVENTORY
@click.option(
    "--accepted", type=click.Path(path_type=Path), default=ACCEPTED, show_default=True, help="Where to keep."
)
def accept(facts_file: Path | None, inventory: Path | None, accepted: Path) -> None:
    """Keep a lab's facts, as they are now, as what `kvlab drift` compares with.

    A lab of which something could not be seen is not accepted.
    """
    from kvlab.doctor import labfacts

    facts = now(facts_file, inventory)
    if facts.problems:
        told = "; ".join(str(problem) for problem in facts.problems)
        raise KvlabError(f"nothing was accepted, for not all could be looked at: {told}")
    accepted.parent.mkdir(parents=True, exist_ok=True)
    labfacts.write(facts, accepted)
    click.echo(f"accepted lab {facts.lab} as of {facts.taken} in {accepted}")


def now(facts_file: Path | None, inventory: Path | None) -> LabFacts:
    """The facts of a file, or those of the lab at this moment."""
    from kvlab.doctor import collect as collector
    from kvlab.doctor import labfacts

    if facts_file and inventory:
        raise KvlabError("--facts takes what was recorded; leave out --inventory.")
    if facts_file:
        return labfacts.read(facts_file)
    return collector.lab(inventory, tell=lambda line: click.echo(line, err=True))


def _known_secrets() -> list[str]:
    """Every secret of the local lab, so that none can stand in a text by accident."""
    from kvlab.serving import lab as labs

    found = labs.find()
    texts: list[str] = []
    for file in sorted((found.state_dir / "secrets").glob("*")) if found else ():
        if file.is_file():
            text = file.read_text(errors="replace")
            texts += [text.strip(), *(word for word in text.replace('"', " ").split() if len(word) >= 16)]
    return texts
