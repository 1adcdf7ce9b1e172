"""Writes docs/commands.md from the commands themselves: ci/commands_page.py [--check]

Exit status 1 when the page was not as it should be; with --check nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kvlab.cli import kvlab

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below `command`, itself first, by the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {word}")


def page() -> str:
    """The reference of the command line."""
    parts = [
        "# Commands\n\nWhat each command says of itself with `--help`; written by ci/commands_page.py. "
        "`./lab WORD` is `kvlab WORD` in the\ncheckout's own environment.\n"
    ]
    for name, command in commands(kvlab, "kvlab"):
        context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
        parts.append(f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def main(check: bool) -> int:
    """Write or compare the page; 1 if it was not as it should be."""
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    new = page()
    if old == new:
        return 0
    if check:
        print("docs/commands.md is not what the commands say; run .venv/bin/python ci/commands_page.py")
    else:
        PAGE.write_text(new, "utf-8")
    return 1


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
