"""Runs the commands of docs/tutorial.md and compares what they print: ci/tutorial.py [--quick] [PAGE]

In a block ```console a line that begins with "$ " is a command, and the lines below it are what it must print, in this
order; "…" stands for any text, and a line that is only "…" for any lines. A command without such lines may print
anything. Each must end with status 0. --quick leaves out the blocks ```console lab, which need a lab that is up. Exit 1
at the first step that is not as the page says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```console( lab)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LONGEST_S = 3600


@dataclass(frozen=True)
class Step:
    """One command and what it prints. `lab`: it needs a lab, or brings it up or down."""

    command: str
    expected: tuple[str, ...]
    lab: bool


def steps(page: str) -> list[Step]:
    """The commands of a page in their order.

    Raises:
        ValueError: the page has none, or a block does not begin with a command.
    """
    found: list[Step] = []
    for lab, block in BLOCK.findall(page):
        if not block.startswith("$ "):
            raise ValueError(f"a block begins with output: {block.splitlines()[0]!r}")
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = part.splitlines()
            found.append(Step(command, tuple(expected), bool(lab)))
    if not found:
        raise ValueError("the page has no command")
    return found


def pattern(expected: tuple[str, ...]) -> re.Pattern[str]:
    """What an output must match as a whole."""
    parts = []
    for line in expected:
        any_text = "[^\n]*".join(re.escape(piece.rstrip()) for piece in line.split("…"))
        parts.append("(?:[^\n]*\n)*?" if line.strip() == "…" else rf"{any_text}[ \t]*\n")
    return re.compile("".join(parts))


def as_shown(step: Step, output: str) -> bool:
    """Whether a command printed what the page shows; where it shows nothing, anything may come."""
    text = output if output.endswith("\n") or not output else output + "\n"
    return not step.expected or pattern(step.expected).fullmatch(text) is not None


def main(arguments: list[str]) -> int:
    """Run every step."""
    quick = "--quick" in arguments
    named = [word for word in arguments if word != "--quick"]
    page = Path(named[0]) if named else ROOT / "docs" / "tutorial.md"
    chosen = [step for step in steps(page.read_text("utf-8")) if not (quick and step.lab)]
    for step in chosen:
        print(f"tutorial: {step.command}", flush=True)
        done = subprocess.run(
            ["sh", "-c", step.command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        if done.returncode or not as_shown(step, done.stdout):
            print(f"status {done.returncode}; the page shows:", *step.expected, "it printed:", sep="\n")
            print(done.stdout)
            return 1
    print(f"{len(chosen)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
