"""kvlab down: end everything that a local lab started."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--state", type=click.Path(path_type=Path), default=Path(".lab"), show_default=True)
def command(state: Path) -> None:
    """Stop every program of the local lab, also one that lost its supervisor."""
    from kvlab.serving.supervisor import Supervisor

    state = state.resolve()
    supervisor = Supervisor(state)
    if supervisor.alive():
        click.echo("stopping the lab's programs (vLLM takes up to half a minute while it starts)")
    if supervisor.shutdown():
        click.echo("the lab is down; its state stays in .lab, ./lab up brings it up again")
    else:
        click.echo("nothing of the lab was running")
