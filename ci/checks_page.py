"""Writes the tables of docs/checks.md from the registry of checks: ci/checks_page.py

Exit status 1 when the page was not as it should be; a test fails likewise.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "checks.md"
BEGIN = "<!-- from the source by ci/checks_page.py -->\n"
END = "<!-- end -->\n"


def tables() -> str:
    """One table for each area of ids."""
    from kvlab.checks import REGISTRY

    def area(check_id: str) -> str:
        return check_id[:-3]

    lines: list[str] = []
    for name, ids in groupby(sorted(REGISTRY), key=area):
        lines += [
            f"### {name}",
            "",
            "| id | stage | severity | topic | what holds | remedy | source |",
            "|---" * 7 + "|",
        ]
        for check_id in ids:
            one = REGISTRY[check_id]
            cells = (one.id, one.stage, one.severity, f"`{one.topic}`", one.title, one.remedy, one.source)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables made anew."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + tables() + END + rest.split(END)[1]


def main() -> int:
    """Write the page; 1 if it was not as it should be."""
    old = PAGE.read_text("utf-8")
    new = page(old)
    PAGE.write_text(new, "utf-8")
    return int(new != old)


if __name__ == "__main__":
    sys.exit(main())
