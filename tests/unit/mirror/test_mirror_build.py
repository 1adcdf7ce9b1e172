"""kvlab mirror against a folder that stands in for the package index; pip and uv are the real ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mirror_fixture
import pytest

from kvlab import stacks
from kvlab.cli import main
from kvlab.errors import KvlabError
from kvlab.mirror import build, lock, wheels
from kvlab.mirror.lock import Pin

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny lab and the mirror `m` made from it: seconds of pip and uv, so once for all tests."""
    root = tmp_path_factory.mktemp("mirror")
    lab = mirror_fixture.lab(root)
    told: list[str] = []
    order = build.Order(
        stack=stacks.load(lab.stacks, "tiny"),
        project=lab.project,
        python=("3.11",),
        sources=("--find-links", str(lab.index), "--no-index"),
    )
    build.make(order, root / "m", told.append)
    assert told[-1] == "hashing the folder"
    return root


@pytest.fixture
def lab(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "lab"))


@pytest.fixture
def kvlab(lab: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`kvlab(words)` gives exit status, stdout and stderr of `kvlab mirror`; {} in a word is the lab's folder."""

    def run(*words: str) -> tuple[object, str, str]:
        places = ["--stacks", str(lab / "project/stacks"), "--project", str(lab / "project")]
        source = ["--find-links", str(lab / "index"), "--no-index"]
        given = [word.format(lab) for word in words]
        monkeypatch.setattr(sys, "argv", ["kvlab", "mirror", *given, *places, *source])
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        return (code, *capsys.readouterr())

    return run


def test_the_folder_holds_the_wheels_of_stack_controller_and_kvlab(lab: Path) -> None:
    assert {path.name for path in (lab / "m/wheels").iterdir()} == {
        "alpha-1.0-py3-none-any.whl",
        "beta-1.0-py3-none-any.whl",
        "pip-1.0-py3-none-any.whl",
        "wheel-1.0-py3-none-any.whl",
        "torch-2.0.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "kvlab-0-py3-none-any.whl",
    }
    manifest = json.loads((lab / "m/manifest.json").read_text())
    assert (manifest["stack"], manifest["python"]) == ("tiny", ["3.11"])
    pinned = {name for name, one in manifest["files"].items() if one["pinned"]}
    assert pinned == {"wheels/alpha-1.0-py3-none-any.whl"}
    # Building kvlab's wheel leaves nothing in the checkout but what setuptools knows it by.
    assert not list((lab / "project").glob("build*"))


def test_an_environment_can_be_installed_from_it_with_the_lock(lab: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--require-hashes",
    ]
    command += ["--find-links", lab / "m/wheels", "--target", lab / "site"]
    lock_file = lab / "project/stacks/tiny-py3.11.lock"
    done = subprocess.run([*command, "-r", lock_file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (lab / "site/alpha-1.0.dist-info").is_dir()


def test_verify_is_silent_on_a_whole_mirror_and_names_what_is_missing_changed_and_too_much(
    lab: Path, kvlab: Run
) -> None:
    assert kvlab("--verify", "{}/m")[0] == 0
    (lab / "m/packages.txt").unlink()
    (lab / "m/wheels/alpha-1.0-py3-none-any.whl").write_bytes(b"half")
    (lab / "m/wheels/other-1.0-py3-none-any.whl").write_bytes(b"")
    code, out, _ = kvlab("--verify", "{}/m")
    lines = out.splitlines()
    assert (code, len(lines)) == (1, 3)
    assert lines[0] == "packages.txt is missing"
    assert lines[1].startswith("wheels/alpha-1.0-py3-none-any.whl has sha256 ")
    assert lines[2] == "wheels/other-1.0-py3-none-any.whl is not in the manifest"


def test_another_run_fetches_what_was_lost_or_damaged_and_nothing_else(lab: Path, kvlab: Run) -> None:
    (lab / "m/wheels/beta-1.0-py3-none-any.whl").unlink()
    (lab / "m/wheels/alpha-1.0-py3-none-any.whl").write_bytes(b"half")
    (lab / "m/.incoming-killed").mkdir()
    code, _, err = kvlab("tiny", "-o", "{}/m")
    assert code == 0, err
    fetched = [line for line in err.splitlines() if line.startswith("[")]
    assert [line.split()[1] for line in fetched] == [
        "alpha-1.0-py3-none-any.whl",
        "beta-1.0-py3-none-any.whl",
    ]
    assert kvlab("--verify", "{}/m")[0] == 0


def test_a_wheel_with_another_hash_is_not_taken(lab: Path, kvlab: Run) -> None:
    (lab / "project/stacks/tiny-py3.11.lock").write_text(f"alpha==1.0 --hash=sha256:{'0' * 64}\n")
    code, _, err = kvlab("tiny", "-o", "{}/new")
    assert code == 2
    assert "alpha 1.0 for Python 3.11 cannot be had" in err.splitlines()[-1]
    assert not list((lab / "new/wheels").iterdir())
    assert not (lab / "new/manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name the stack and the folder"),
        (("tiny",), "name the stack and the folder"),
        (("absent", "-o", "{}/m"), "there is no stack named 'absent'"),
        (("tiny", "-o", "{}/m", "--python", "3.9"), "no lock for Python 3.9; choose from 3.11"),
        (("tiny", "-o", "{}/project"), "holds something else than a mirror"),
        (("--verify", "{}/index"), "is no finished mirror"),
        (("tiny", "--verify", "{}/m"), "--verify stands alone"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(kvlab: Run, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = kvlab(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["alpha", "alpha>=1 --hash=sha256:" + "0" * 64, "alpha==1.0", "-e .", "alpha==1.0 --hash=md5:1", "\n"],
)
def test_a_lock_with_another_line_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.lock").write_text(line)
    with pytest.raises(KvlabError, match="make the lock anew"):
        lock.read(tmp_path / "x.lock")


@pytest.mark.parametrize(
    ("tag", "pythons"),
    [
        ("py3-none-any", {"3.11", "3.12"}),
        ("cp311-cp311-manylinux_2_28_x86_64", {"3.11"}),
        ("cp39-abi3-manylinux_2_17_x86_64", {"3.11", "3.12"}),
        ("cp312-abi3-manylinux_2_17_x86_64", {"3.12"}),
        ("cp312-cp312-manylinux_2_34_x86_64", {"3.12"}),
        ("cp312-cp312-manylinux_2_35_x86_64", set()),
        ("cp312-cp312-manylinux_2_17_aarch64", set()),
        ("cp312-cp312-musllinux_1_2_x86_64", set()),
    ],
)
def test_a_wheel_serves_the_pythons_of_its_tag(tmp_path: Path, tag: str, pythons: set[str]) -> None:
    mirror_fixture.wheel(tmp_path, "alpha", "1.0", tag)
    folder = wheels.Folder(tmp_path)
    assert {python for python in ("3.11", "3.12") if folder.serving(Pin("alpha", "1.0"), python)} == pythons
