"""kvlab junit: results of several hosts and runs, joined and told in a few lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvlab.junit import Result

_FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """Join and read what `pytest --junitxml` wrote.

    Exit code: 0 all passed or skipped, 1 something failed, 2 a file cannot be used.
    """


@command.command()
@_FILES
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The joined file.")
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Write one file in which each test of each host stands once, with its worst verdict and that one's evidence."""
    from kvlab import junit

    results = junit.merge(junit.read(file) for file in files)
    junit.write(results, output)
    click.echo(junit.summary(results)[0])
    sys.exit(_status(results))


@command.command()
@_FILES
def summary(files: tuple[Path, ...]) -> None:
    """Say what failed first and why, then the rest; of several files, of all together."""
    from kvlab import junit

    results = junit.merge(junit.read(file) for file in files)
    click.echo("\n".join(junit.summary(results)))
    sys.exit(_status(results))


def _status(results: Sequence[Result]) -> int:
    return 1 if any(r.verdict in ("fail", "error") for r in results) else 0
