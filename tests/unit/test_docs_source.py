"""The documentation site has a page for each role and each document, and a link that leads nowhere stays one."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = runpy.run_path(str(ROOT / "ci/docs_source.py"))


def test_every_role_and_every_document_is_a_page(tmp_path: Path) -> None:
    SOURCE["main"](tmp_path / "site")
    pages = {str(page.relative_to(tmp_path / "site")) for page in (tmp_path / "site").rglob("*.md")}
    roles = {f"roles/{path.parent.parent.name}.md" for path in ROOT.glob("roles/*/tasks/main.yml")}
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(roles) > 15
    assert pages == roles | documents | {"index.md", "changes.md"}


def test_links_are_made_to_fit_and_a_bad_one_is_left_for_mkdocs_to_complain_of() -> None:
    page, role = ROOT / "docs/page.md", ROOT / "roles/serving/README.md"
    pages = {page: Path("page.md"), role: Path("roles/serving.md")}
    given = (
        "[serving](../roles/serving/README.md#variables) [script](../ci/lint) [gone](nothing.md) [web](https://example.org)\n"
        "```\n[no link](../ci/lint)\n```\n"
    )
    assert SOURCE["fitted"](given, page, Path("page.md"), pages) == (
        "[serving](roles/serving.md#variables) script (`ci/lint`) [gone](nothing.md) [web](https://example.org)\n"
        "```\n[no link](../ci/lint)\n```\n"
    )
    back = SOURCE["fitted"]("[page](../../docs/page.md)", role, Path("roles/serving.md"), pages)
    assert back == "[page](../page.md)"
