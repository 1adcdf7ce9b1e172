"""kvlab profile: the serving profiles of a lab."""

from __future__ import annotations

import click


@click.group()
def command() -> None:
    """Show and switch the serving profile (baseline, s3-http, s3-rdma, file)."""


@command.command("list")
def list_() -> None:
    """Name the profiles; the running one is marked."""
    from kvlab.serving import lab as labs
    from kvlab.serving import profiles

    lab = labs.load()
    now = profiles.running(lab)
    label = "  (simulated)" if lab.simulated else ""
    for name, profile in lab.profiles.items():
        click.echo(f"{'*' if name == now else ' '} {name:10} path: {profile['expected_path']}{label}")


@command.command()
@click.argument("name")
@click.option("--no-restart", is_flag=True, help="Leave the profile alone when it already runs.")
def use(name: str, no_restart: bool) -> None:
    """Stop the running profile, start NAME and wait until it serves.

    `./lab up` restores the profile that the inventory asks for.
    """
    from kvlab.serving import lab as labs
    from kvlab.serving import profiles

    profiles.use(labs.load(), name, restart=not no_restart, progress=click.echo)
