"""kvlab doctor: what is wrong with a lab, why, and what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from kvlab.errors import KvlabError


@click.command("doctor")
@click.option(
    "-i", "--inventory", type=click.Path(path_type=Path), help="Inventory of the lab. Default: the local lab."
)
@click.option(
    "--facts", "facts_file", type=click.Path(path_type=Path), metavar="FILE", help="Judge recorded facts."
)
@click.option("--stage", type=click.Choice(["preflight", "host", "path", "serving"]), help="One stage only.")
@click.option(
    "--only", "only", multiple=True, metavar="ID", help="An id or the beginning of one; repeatable."
)
@click.option(
    "--waivers",
    "waivers_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Findings that somebody answers for. Default: waivers.yml, if there is one.",
)
@click.option(
    "--round-trip", is_flag=True, help="Also move bytes through NIXL under a key prefix of its own."
)
@click.option("--list", "list_", is_flag=True, help="Name every check.")
@click.option("--passes", is_flag=True, help="Show passed checks, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    inventory: Path | None,
    facts_file: Path | None,
    stage: str | None,
    only: tuple[str, ...],
    waivers_file: Path | None,
    round_trip: bool,
    list_: bool,
    passes: bool,
    as_json: bool,
) -> None:
    """Judge a lab, or recorded facts, by every check.

    Exit status 0: healthy. 1: something is wrong. 2: something could not be looked at.
    """
    from kvlab.doctor import diagnosis, labfacts, text, waivers

    try:
        checks = diagnosis.select(only, stage)
    except ValueError as error:
        raise KvlabError(f"{error}; kvlab doctor --list shows them.") from None
    if list_:
        fields = ("id", "title", "stage", "severity", "topic", "remedy", "source")
        listed = [{name: getattr(check, name) for name in fields} for check in checks]
        rows = [f"{one['id']:8} {one['stage']:9} {one['severity']:8} {one['title']}" for one in listed]
        click.echo(json.dumps(listed, indent=1) if as_json else "\n".join(rows))
        return
    if facts_file and (inventory or round_trip):
        raise KvlabError("--facts judges what was recorded; leave out --inventory and --round-trip.")
    known = waivers_file or Path("waivers.yml")
    granted = waivers.read(known) if waivers_file or known.exists() else ()
    if facts_file:
        facts = labfacts.read(facts_file)
    else:
        from kvlab.doctor import collect

        facts = collect.lab(inventory, tell=lambda line: click.echo(line, err=True), round_trip=round_trip)
    found = diagnosis.diagnose(facts, checks, granted, asked_for=only)
    click.echo(json.dumps(found.as_json(), indent=1) if as_json else text.render(found, passes=passes))
    sys.exit(found.exit_code)
