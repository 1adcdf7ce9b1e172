"""kvlab stack: the tested sets of versions and their locks."""

from __future__ import annotations

from pathlib import Path

import click

STACKS = click.option(
    "--stacks",
    type=click.Path(path_type=Path),
    default=Path("stacks"),
    show_default=True,
    help="Folder of the stack files.",
)


@click.group()
def command() -> None:
    """Tested sets of vLLM, LMCache and NIXL, and their lock files."""


@command.command("list")
@STACKS
def list_(stacks: Path) -> None:
    """Name every stack and how far it has been proven."""
    from kvlab import stacks as stack_files

    for name in stack_files.known(stacks):
        stack = stack_files.load(stacks, name)
        click.echo(f"{stack.name:16} {stack.proven:14} {stack.summary}")


@command.command()
@click.argument("name")
@STACKS
def lock(name: str, stacks: Path) -> None:
    """Resolve stack NAME for each of its Python versions and write its lock files, with hashes."""
    import subprocess
    import sys
    import tempfile

    from kvlab import stacks as stack_files
    from kvlab.errors import KvlabError

    stack = stack_files.load(stacks, name)
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as scratch:
        direct, overrides = Path(scratch, "direct.in"), Path(scratch, "overrides.txt")
        direct.write_text(stack.requirements_in())
        overrides.write_text(stack.overrides_txt())
        for python in stack.python:
            target = stack.lock(python)
            click.echo(f"resolving {stack.name} for Python {python}")
            done = subprocess.run(
                [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate", "--no-header",
                 "--python-version", python, "--python-platform", "x86_64-manylinux_2_28",
                 "--override", overrides, direct, "--output-file", target],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise KvlabError(f"stack {name} does not resolve for Python {python}:\n{done.stderr.strip()}")
            click.echo(f"wrote {target}")
