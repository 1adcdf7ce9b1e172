"""wheel_file applies dell-fixed's replacements to the published LMCache; needs network access to the package index."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
STACK: dict[str, Any] = yaml.safe_load((ROOT / "stacks/dell-fixed.yml").read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with LMCache of the stack installed by itself."""
    folder = tmp_path_factory.mktemp("site")
    wanted = f"lmcache=={STACK['packages']['lmcache']['version']}"
    command = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        folder,
    ]
    subprocess.run([*command, "--python", sys.executable, wanted], check=True, timeout=300)
    return folder


@pytest.mark.parametrize("entry", STACK["replaced_files"], ids=lambda entry: Path(entry["file"]).stem)
def test_a_replacement_is_made_once(
    entry: dict[str, Any], site: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    spec = importlib.util.spec_from_file_location("wheel_file", ROOT / "plugins/modules/wheel_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = {key: entry[key] for key in ("file", "original_sha256", "sha256")}
    arguments |= {"path": str(site / entry["file"]), "python": sys.executable, **entry["from"]}
    arguments |= {"wheel_sha256": entry["wheel_sha256"][PYTHON], "_ansible_remote_tmp": str(tmp_path)}
    changes = []
    for _ in range(2):
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert "failed" not in result, result
        changes.append(result["changed"])
    assert changes == [True, False]


def test_the_extension_of_the_stack_is_a_compiled_module_of_its_wheel(site: Path) -> None:
    name = STACK["extension"]["module"].replace(".", "/")
    assert list(site.glob(f"{name}.cpython-{PYTHON.replace('.', '')}-*.so"))
