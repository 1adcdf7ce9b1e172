"""docs/kv-lint.md and the linter say the same: every rule is on the page, every id on the page is a rule."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kvlab import checks

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kv-lint.md").read_text("utf-8")


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """The program that writes the table."""
    spec = importlib.util.spec_from_file_location("kv_lint_table", ROOT / "ci" / "kv_lint_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up.
    sys.modules["kv_lint_table"] = module
    spec.loader.exec_module(module)
    return module


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_table_is_that_of_the_source(table: ModuleType) -> None:
    assert table.page(PAGE) == PAGE, "run ci/kv_lint_table.py"


def test_every_rule_belongs_to_a_trap_and_every_trap_names_rules_that_exist(table: ModuleType) -> None:
    named = set(re.findall(table.ID, section("Known traps and their rules")))
    assert named == set(table.rules())


def test_every_rule_of_the_source_is_found(table: ModuleType) -> None:
    """The table is made from calls; an id in any other place of the source would be a rule that it misses."""
    written = {
        code
        for file in table.RULES.glob("*.py")
        for code in re.findall(rf'"({table.ID.pattern})"', file.read_text("utf-8"))
    }
    assert written == set(table.rules())


def test_every_rule_has_a_test(table: ModuleType) -> None:
    tests = "".join(file.read_text("utf-8") for file in Path(__file__).parent.glob("test_lint*.py"))
    untested = [code for code in table.rules() if f'"{code}"' not in tests]
    assert not untested


def test_checks_named_for_what_no_file_shows_exist() -> None:
    named = set(re.findall(r"\b(?:KV|PATH|NIXL|DATA|GPU)\d{3}\b", section("What no file shows")))
    assert named
    assert named <= checks.REGISTRY.keys()


def test_the_tests_named_on_the_page_exist() -> None:
    source = "".join(file.read_text("utf-8") for file in (ROOT / "tests" / "integration").glob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", PAGE):
        assert f"def {name}(" in source
