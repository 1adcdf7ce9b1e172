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


@command.command("list")
@DIRECTORY
@click.option("--model", required=True, help="Name of the model, such as Qwen/Qwen3-Coder-30B-A3B-Instruct.")
@click.option("--revision", required=True, help="Its revision, such as a commit of the hub it came from.")
def list_(directory: Path, model: str, revision: str) -> None:
    """Write kvlab-model.json into DIRECTORY: size and sha256 of each file, by which hosts get the weights.

    Prints the document's own sha256, for model_store_sha256.
    """
    import hashlib

    from kvlab.modelstore import listing
    from kvlab.whole_file import aside

    content = listing.make(directory, model, revision)
    with aside(directory / listing.NAME, content, 0o644) as ready:
        ready.replace(directory / listing.NAME)
    click.echo(hashlib.sha256(content).hexdigest())
