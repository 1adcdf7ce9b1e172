"""What pre-commit runs before a commit is what ci/lint runs after it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def hooks() -> list[dict[str, str]]:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repository["repo"] == "local", "a hook from elsewhere would fetch what an air-gapped lab cannot"
    return list(repository["hooks"])


def test_every_linter_of_ci_lint_is_a_hook_and_secrets_are_looked_for_too() -> None:
    linters = set(re.findall(r"^check ([\w-]+)", (ROOT / "ci/lint").read_text("utf-8"), re.MULTILINE))
    assert len(linters) > 10
    assert {hook["id"] for hook in hooks()} == linters | {"secrets"}


def test_every_hook_has_files_to_look_at() -> None:
    """A pattern that fits no file is a hook that never runs."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for hook in hooks():
        assert any(re.search(hook.get("files", ""), name) for name in listed), hook["id"]
