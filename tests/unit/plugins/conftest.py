"""Runs an Ansible module of this collection in the test's own process."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).parents[3]
# Modules import what they share by the collection's name; `lab` links this checkout there.
sys.path.insert(0, str(ROOT / ".lab/collections"))
# The scripted array stands with the tests of the client.
sys.path.insert(0, str(ROOT / "tests/unit/objectscale"))
# What stands in for a GPU host is shared with the replica.
sys.path.insert(0, str(ROOT / "tests/replica"))
Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(name, **arguments)` gives the module's result; `failed` is in it when it failed."""
    # A test that imported Ansible's controller would make modules print their warnings instead of returning them.
    monkeypatch.setattr("ansible.module_utils._internal.is_controller", False)

    def call(name: str, /, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        spec = importlib.util.spec_from_file_location(f"module_{name}", ROOT / f"plugins/modules/{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        ansible = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(tmp_path)}
        with patch_module_args(arguments | ansible), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        return result

    return call


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """`commands("mlnx_qos", ...)` puts stand-ins on PATH and nothing else; returns their state folder."""
    state, bin_folder = tmp_path / "standins", tmp_path / "bin"
    state.mkdir()
    bin_folder.mkdir()
    (bin_folder / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("KVLAB_STANDINS", str(state))
    monkeypatch.setenv("PATH", str(bin_folder))

    def install(*names: str) -> Path:
        for name in names:
            script = ROOT / "tests/replica/commands" / f"{name.replace('-', '_')}.py"
            (bin_folder / name).symlink_to(script)
        return state

    return install
