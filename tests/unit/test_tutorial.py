"""The tutorial can be run, and a page that says something else than a command prints is found out."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = runpy.run_path(str(ROOT / "ci/tutorial.py"))


def test_the_page_goes_from_the_first_command_to_down() -> None:
    found = TUTORIAL["steps"]((ROOT / "docs/tutorial.md").read_text("utf-8"))
    commands = [step.command for step in found]
    assert commands[0] == "./lab --version"
    assert commands[-1] == "./lab down"
    assert [step.lab for step in found] == sorted(step.lab for step in found)


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        (("a … c",), "a b c\n", True),
        (("a … c",), "a b d\n", False),
        (("…", "end"), "one\ntwo\nend\n", True),
        (("…", "end"), "end\n", True),
        (("…", "end"), "one\nend\nmore\n", False),
        (("end",), "one\nend\n", False),
        (("a.b",), "axb\n", False),
        ((), "anything", True),
        (("x",), "x", True),
    ],
)
def test_an_ellipsis_is_any_text_and_everything_else_is_itself(
    expected: tuple[str, ...], output: str, same: bool
) -> None:
    assert TUTORIAL["as_shown"](TUTORIAL["Step"]("true", expected, False), output) is same


@pytest.mark.parametrize(("line", "status"), [("hello", 0), ("goodbye", 1)])
def test_a_page_that_shows_another_output_fails(
    line: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ echo hello\n{line}\n```\n", "utf-8")
    assert TUTORIAL["main"]([str(page)]) == status
    assert ("1 passed" in capsys.readouterr().out) is (status == 0)


def test_a_command_that_fails_fails_the_page_whatever_it_prints(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo hello; false\n…\n```\n", "utf-8")
    assert TUTORIAL["main"]([str(page)]) == 1


def test_a_page_without_commands_is_no_tutorial() -> None:
    with pytest.raises(ValueError, match="no command"):
        TUTORIAL["steps"]("nothing")
