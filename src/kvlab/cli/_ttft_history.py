"""kvlab ttft history: runs that are kept to be compared with."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvlab.cli import _store

if TYPE_CHECKING:
    from kvlab.ttft.history import Entry

where = click.option(
    "--history", "where", metavar="WHERE", help="A folder or s3://bucket/prefix. Default: the lab's own runs."
)


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:  # noqa: ARG001
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,5})d", value)
    if not found:
        raise click.BadParameter(f"{value} is no age such as 90d")
    return timedelta(days=int(found[1]))


@click.group("history")
def command() -> None:
    """Keep runs, list them, and forget old ones. `kvlab gate --history` compares with them."""


@command.command("list")
@where
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_store.options
def list_(where: str | None, as_json: bool, **store: Any) -> None:
    """The runs, oldest first."""
    from kvlab.cli import _history
    from kvlab.ttft import history

    found = history.entries(_history.of(where, **store))
    if as_json:
        click.echo(json.dumps([_plain(one) for one in found]))
        return
    for one in found:
        click.echo(_line(one))
    click.echo(f"{len(found)} runs")


@command.command()
@where
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=click.Path(path_type=Path))
@_store.options
def add(where: str | None, results: tuple[Path, ...], **store: Any) -> None:
    """Keep the runs in RESULT: files, or folders of them. One that is there already is replaced."""
    from kvlab.cli import _history
    from kvlab.ttft import runs

    into = _history.of(where, **store)
    for path in results:
        for result in runs.read(path):
            click.echo(into.add(result))


@command.command()
@where
@click.option(
    "--keep", type=click.IntRange(min=1), help="The newest of each environment stay; the rest goes."
)
@click.option("--older-than", callback=_age, metavar="AGE", help="Such as 90d: what is older goes.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@_store.options
def prune(
    where: str | None, keep: int | None, older_than: timedelta | None, dry_run: bool, **store: Any
) -> None:
    """Forget runs."""
    from kvlab.cli import _history
    from kvlab.ttft import history, selection

    if keep is None and older_than is None:
        raise click.UsageError("give --keep, or --older-than, or both")
    kept = _history.of(where, **store)
    found = history.entries(kept)
    gone = selection.surplus(found, keep=keep, older_than=older_than, now=datetime.now(UTC))
    if not dry_run:
        kept.remove([one.name for one in gone])
    for one in gone:
        click.echo(_line(one))
    click.echo(f"{len(gone)} of {len(found)} runs {'would be' if dry_run else 'are'} forgotten")


def _plain(one: Entry) -> dict[str, Any]:
    run = one.header
    return {
        "name": one.name,
        "id": run.id,
        "created": run.created,
        "plan": str(run.plan.get("name") or ""),
        "model": run.model,
        "commit": run.commit,
        "stack": run.stack,
        "driver": str(run.environment.get("driver.nvidia") or ""),
        "fingerprint": run.fingerprint,
        "simulated": run.simulated,
        "complete": run.complete,
    }


def _line(one: Entry) -> str:
    run = _plain(one)
    label = " (simulated)" if run["simulated"] else ""
    state = "" if run["complete"] else "  stopped"
    return (
        f"{run['created']:26}{run['id']:34}{run['commit'][:10] or '-':12}{run['stack'] or '-':22}"
        f"{run['driver'] or '-':12}{run['fingerprint'][:10]}{state}{label}"
    )
