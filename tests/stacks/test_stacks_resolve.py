"""Every stack resolves as its file says, against the package index; needs network access to it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab import stacks

FOLDER = Path(__file__).parents[2] / "stacks"
CASES = [(name, python) for name in stacks.known(FOLDER) for python in ("3.11", "3.12")]
UV = Path(sys.executable).with_name("uv")


def resolve(folder: Path, requirements: str, overrides: str, python: str) -> subprocess.CompletedProcess[str]:
    (folder / "direct.in").write_text(requirements)
    (folder / "overrides.txt").write_text(overrides)
    return subprocess.run(
        [UV, "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-version", python,
         "--python-platform", "x86_64-manylinux_2_28", "--override", folder / "overrides.txt", folder / "direct.in"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "python"), CASES)
def test_a_stack_resolves_and_holds_its_versions(name: str, python: str, tmp_path: Path) -> None:
    stack = stacks.load(FOLDER, name)
    done = resolve(tmp_path, stack.requirements_in(), stack.overrides_txt(), python)
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", done.stdout, flags=re.MULTILINE))
    for package in stack.packages.values():
        assert found[package.distribution] == package.version


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_a_conflict_that_no_override_settles_does_not_resolve(python: str, tmp_path: Path) -> None:
    """The control for the test above: the same set with its cufile as an ordinary requirement."""
    stack = stacks.load(FOLDER, "dell-fixed")
    pinned = stack.requirements_in() + f"nvidia-cufile=={stack.overrides['nvidia-cufile']}\n"
    left_out_only = "".join(f"{name} ; sys_platform == 'never'\n" for name in stack.left_out)
    done = resolve(tmp_path, pinned, left_out_only, python)
    assert done.returncode != 0
    assert "nvidia-cufile" in done.stderr


def test_the_documents_own_pins_cannot_be_installed_together(tmp_path: Path) -> None:
    done = resolve(tmp_path, "vllm==0.19.0\nlmcache==0.4.5\n", "", "3.12")
    assert done.returncode != 0
    assert "transformers" in done.stderr


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_replaced_files_are_those_of_the_published_wheels(python: str, tmp_path: Path) -> None:
    values: dict[str, Any] = yaml.safe_load((FOLDER / "dell-fixed.yml").read_text())
    own = values["packages"]["lmcache"]
    for entry in values["replaced_files"]:
        original = wheel(tmp_path, own["distribution"], own["version"], python)
        newer = wheel(tmp_path, entry["from"]["distribution"], entry["from"]["version"], python)
        assert digest(zipfile.ZipFile(original).read(entry["file"])) == entry["original_sha256"]
        assert digest(zipfile.ZipFile(newer).read(entry["file"])) == entry["sha256"]
        assert digest(newer.read_bytes()) == entry["wheel_sha256"][python]


def wheel(folder: Path, distribution: str, version: str, python: str) -> Path:
    target = folder / version
    if not target.exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
             "--python-version", python, f"{distribution}=={version}", "--dest", target],
            check=True, timeout=300,
        )  # fmt: skip
    (file,) = target.glob("*.whl")
    return file


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
