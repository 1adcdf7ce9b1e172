"""Wheel and collection as a stranger gets them: built, installed elsewhere, used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from kvlab import __version__

ROOT = Path(__file__).parents[2]
COMMANDS = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "check": False}


def run(*argv: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command that must succeed, away from the checkout."""
    done = attempt(*argv, cwd=cwd, **env)
    assert done.returncode == 0, done.stdout
    return done


def attempt(*argv: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command whose outcome the caller judges."""
    command = list(map(str, argv))
    return subprocess.run(command, cwd=cwd, env={**os.environ, **env}, **COMMANDS)  # type: ignore[call-overload,no-any-return]


def uv(*arguments: object, cwd: Path) -> None:
    """uv of this environment."""
    run(Path(sys.executable).with_name("uv"), *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="module")
def source(folder: Path) -> Path:
    """What git holds, and nothing that lies about in this checkout."""
    copy = folder / "source"
    run("git", "clone", "--quiet", ROOT, copy, cwd=folder)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, folder: Path) -> Path:
    uv("build", "--quiet", "--wheel", "--out-dir", folder / "wheel", source, cwd=folder)
    (found,) = (folder / "wheel").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def kvlab(wheel: Path, folder: Path) -> Path:
    """The command of an environment that has the package without any extra."""
    uv("venv", "--quiet", "--python", sys.executable, folder / "core", cwd=folder)
    uv("pip", "install", "--quiet", "--python", folder / "core/bin/python", wheel, cwd=folder)
    return folder / "core/bin/kvlab"


@pytest.fixture(scope="module")
def collection(source: Path, folder: Path) -> Path:
    """The folder that the built collection was installed into."""
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    run(galaxy, "collection", "build", source, "--output-path", folder, cwd=folder)
    (built,) = folder.glob("kvlab-lab-*.tar.gz")
    run(
        galaxy,
        "collection",
        "install",
        "--offline",
        built,
        "--collections-path",
        folder / "installed",
        cwd=folder,
    )
    return folder / "installed"


def test_the_version_is_the_same_everywhere(wheel: Path, source: Path) -> None:
    assert wheel.name.split("-")[1] == __version__
    assert yaml.safe_load((source / "galaxy.yml").read_text("utf-8"))["version"] == __version__
    assert f"## {__version__}" in (source / "CHANGELOG.md").read_text("utf-8")


def test_the_package_alone_gives_a_command_that_works(kvlab: Path, folder: Path) -> None:
    assert run(kvlab, "--version", cwd=folder).stdout.strip().endswith(__version__)
    sized = json.loads(
        run(kvlab, "size", "--preset", "Qwen3-32B", "--tokens", "1024", "--json", cwd=folder).stdout
    )
    assert sized["bytes_per_token"] > 0


def test_every_word_of_the_command_has_its_help_without_any_extra(kvlab: Path, folder: Path) -> None:
    listed = run(kvlab, "--help", cwd=folder).stdout.split("Commands:")[1]
    words = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "]
    assert {"size", "gate", "report", "emulator"} <= set(words)
    for word in words:
        assert "Usage: kvlab" in run(kvlab, word, "--help", cwd=folder).stdout


def test_what_needs_an_extra_says_which(kvlab: Path, folder: Path) -> None:
    users = folder / "users.json"
    users.write_text('{"users": [{"access_key": "kvlab", "secret_keys": ["secret"]}]}')
    users.chmod(0o600)
    result = attempt(kvlab, "emulator", "--state", folder / "store", "--users", users, cwd=folder)
    assert result.returncode == 2, result.stdout
    assert "pip install 'kvlab[emulator]'" in result.stdout
    assert "Traceback" not in result.stdout


def test_the_collection_carries_what_its_roles_read_and_nothing_of_a_lab(collection: Path) -> None:
    installed = collection / "ansible_collections/kvlab/lab"
    for needed in ("stacks/current-cpu.yml", "native/cuobject/Makefile", "playbooks/serving.yml", "LICENSE"):
        assert (installed / needed).exists(), needed
    for foreign in (".lab", ".venv", ".cache", ".git"):
        assert not (installed / foreign).exists(), foreign


def test_the_collection_was_built_without_caches(folder: Path, collection: Path) -> None:
    (built,) = folder.glob("kvlab-lab-*.tar.gz")
    with tarfile.open(built) as archive:
        assert not [name for name in archive.getnames() if "__pycache__" in name or name.endswith(".pyc")]


def test_ansible_doc_shows_every_module_and_role_of_the_installed_collection(
    collection: Path, folder: Path
) -> None:
    doc = Path(sys.executable).with_name("ansible-doc")
    paths = {"ANSIBLE_COLLECTIONS_PATH": str(collection), "ANSIBLE_HOME": str(folder / "home")}
    modules = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
    names = [f"kvlab.lab.{name}" for name in modules]
    shown = json.loads(run(doc, "--json", *names, cwd=folder, **paths).stdout)
    assert sorted(shown) == names
    assert all(entry["doc"]["short_description"] for entry in shown.values())
    roles = json.loads(
        run(doc, "--json", "--type", "role", "--list", "kvlab.lab", cwd=folder, **paths).stdout
    )
    assert {name.removeprefix("kvlab.lab.") for name in roles} == {
        path.parent.parent.name for path in (ROOT / "roles").glob("*/meta/argument_specs.yml")
    }


def test_a_play_of_another_project_uses_a_module_and_a_filter_of_the_collection(
    collection: Path, folder: Path
) -> None:
    (folder / "sys/class").mkdir(parents=True)
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [
                {"kvlab.lab.rdma_facts": {"sysfs_root": str(folder / "sys")}, "register": "rdma"},
                {"ansible.builtin.assert": {"that": "rdma.devices == []"}},
                {
                    "ansible.builtin.debug": {
                        "msg": "{{ {'host': {}} | kvlab.lab.judge('HOST') | length }} findings"
                    }
                },
            ],
        }
    ]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    done = run(
        Path(sys.executable).with_name("ansible-playbook"),
        "play.yml",
        cwd=folder,
        ANSIBLE_COLLECTIONS_PATH=str(collection),
        ANSIBLE_HOME=str(folder / "home"),
    )
    assert "findings" in done.stdout
