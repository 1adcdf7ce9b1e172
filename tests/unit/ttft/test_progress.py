"""A bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import pytest

from kvlab.cli._progress import Progress


def shown(*, terminal: bool) -> None:
    progress = Progress(terminal=terminal)
    progress.show(1, 4, 125.0)
    progress.tell("a line")
    progress.show(4, 4, 0.0)
    progress.close()


def test_a_terminal_gets_a_bar_with_passes_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    shown(terminal=True)
    said = capsys.readouterr().err
    assert "1 of 4 passes, 2 min left" in said
    assert "a line\n" in said


def test_elsewhere_there_are_only_lines(capsys: pytest.CaptureFixture[str]) -> None:
    shown(terminal=False)
    assert capsys.readouterr().err == "a line\n"
