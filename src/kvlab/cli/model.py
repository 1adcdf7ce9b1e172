"""kvlab model: make the test model, show the shape of any."""

from __future__ import annotations

from pathlib import Path

import click

DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))


@click.group()
def command() -> None:
    """The test model, and the shape of any Hugging Face model directory."""


@command.command()
@DIRECTORY
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, another model."
)
def make(directory: Path, seed: int) -> None:
    """Write the test model into DIRECTORY, unless it is there already."""
    from kvlab.testmodel.make import make as make_model

    click.echo(f"model made in {directory}" if make_model(directory, seed) else "model up to date")


@command.command()
@DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def show(directory: Path, as_json: bool) -> None:
    """Say what the model in DIRECTORY is: layers, KV heads, bytes of KV for a token, longest context."""
    import dataclasses
    import json

    from kvlab.testmodel import inspect_model

    facts = dataclasses.asdict(inspect_model(directory))
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        click.echo(f"{name:24} {'unknown' if value is None else value}")
