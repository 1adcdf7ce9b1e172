"""The kvlab command: one module per word, found by name, imported only when used."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from importlib import metadata

import click

from kvlab import __version__
from kvlab.errors import KvlabError


class Words(click.Group):
    """A group whose commands are the modules of this package; each holds its click command as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if m.name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command = module.command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module.__name__}.command is not a click command")
        return command


@click.command(cls=Words, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kvlab")
def kvlab() -> None:
    """Test lab for KV-cache offload to Dell ObjectScale."""


def extra_of(module: str) -> str | None:
    """The extra of this package that brings `module` (aiohttp: emulator), or None where none does."""
    for requirement in metadata.requires("kvlab") or []:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r'extra == "(\w+)"', requirement)
        if name and extra and name[0].replace("-", "_").lower() == module.partition(".")[0].lower():
            return extra[1]
    return None


def main() -> None:
    """Run the command line; a KvlabError becomes one line on stderr and its exit code."""
    try:
        kvlab(prog_name="kvlab")
    except ModuleNotFoundError as error:
        extra = extra_of(error.name or "")
        if extra is None:
            raise
        click.echo(
            f"kvlab: this needs {error.name}, which comes with pip install 'kvlab[{extra}]'.", err=True
        )
        sys.exit(2)
    except KvlabError as error:
        click.echo(f"kvlab: {error}", err=True)
        sys.exit(error.exit_code)
