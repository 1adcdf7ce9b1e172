"""Lays out the pages of the documentation site: ci/docs_source.py FOLDER

README.md and docs/ as they are, each role's README, and what is generated from the code: a page of every command with
its help. Links between pages, and of pages to files of the repository, are made to fit, so that mkdocs can check them.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kvlab.cli import kvlab

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below `command`, itself first, by the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {word}")


def commands_page() -> str:
    """The reference of the command line."""
    parts = ["# Commands\n\nWhat each command says of itself with `--help`.\n"]
    for name, command in commands(kvlab, "kvlab"):
        context = click.Context(command, info_name=name, terminal_width=100, max_content_width=100)
        parts.append(f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def fitted(text: str, source: Path, page: Path, pages: dict[Path, Path]) -> str:
    """The page with its links to other pages relative to itself, and those to any other file as that file's path."""

    def fit(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = (source.parent / target).resolve()
        if place in pages:
            depth = len(page.parent.parts)
            return f"[{label}]({'../' * depth}{pages[place].as_posix()}{anchor})"
        if place.exists():
            return label if label.startswith("`") else f"{label} (`{place.relative_to(ROOT)}`)"
        # Left as it is: mkdocs complains, which is what it is asked for.
        return found[0]

    # What stands in a code block is no link.
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(block if block.startswith("```") else LINK.sub(fit, block) for block in blocks)


def main(folder: Path) -> None:
    """Write the pages."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = {ROOT / "README.md": Path("index.md"), ROOT / "CHANGELOG.md": Path("changes.md")}
    pages |= {path: Path(path.name) for path in sorted((ROOT / "docs").glob("*.md"))}
    pages |= {
        path: Path("roles", f"{path.parent.name}.md") for path in sorted((ROOT / "roles").glob("*/README.md"))
    }
    for source, page in pages.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fitted(source.read_text("utf-8"), source, page, pages), "utf-8")
    (folder / "commands.md").write_text(commands_page(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
