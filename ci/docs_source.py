"""Lays out the pages of the documentation site: ci/docs_source.py FOLDER

README.md and docs/ as they are, and each role's README. Links between pages, and of pages to files of the repository,
are made to fit, so that mkdocs can check them.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


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
    pages |= {path: path.relative_to(ROOT / "docs") for path in sorted((ROOT / "docs").rglob("*.md"))}
    pages |= {
        path: Path("roles", f"{path.parent.name}.md") for path in sorted((ROOT / "roles").glob("*/README.md"))
    }
    for source, page in pages.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fitted(source.read_text("utf-8"), source, page, pages), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
