"""A lab that is down has no running profile, and saying so is no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvlab.cli import profile
from kvlab.serving.lab import LAB_ENV


def test_profiles_are_listed_and_none_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lab.json"
    profiles = {"baseline": {"expected_path": "none"}}
    file.write_text(json.dumps({"state_dir": str(tmp_path), "simulated": True, "profiles": profiles}))
    monkeypatch.setenv(LAB_ENV, str(file))
    done = CliRunner().invoke(profile.command, ["list"])
    assert done.exception is None
    assert done.output == "  baseline   path: none  (simulated)\n"
