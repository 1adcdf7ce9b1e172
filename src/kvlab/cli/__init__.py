"""The kvlab command: one module per word, found by name, imported only when used."""

from __future__ import annotations

import importlib
import pkgutil
import sys

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


def main() -> None:
    """Run the command line; a KvlabError becomes one line on stderr and its exit code."""
    try:
        kvlab(prog_name="kvlab")
    except KvlabError as error:
        click.echo(f"kvlab: {error}", err=True)
        sys.exit(error.exit_code)
