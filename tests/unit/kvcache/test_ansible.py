"""The Ansible filter and module give what the library gives, and turn its sentences into Ansible's failures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.testing import patch_module_args

from kvlab.kvcache import render
from kvlab.kvcache.profile import ProfileSpec

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests" / "fixtures" / "kvcache"


def load(kind: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"plugin_{name}", ROOT / "plugins" / kind / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lint(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[int, dict[str, Any]]:
    """Exit status and result of the module."""
    module = load("modules", "kv_config_lint")
    with (
        patch_module_args({"lmcache": "0.4.5", "nixl": "1.1.0"} | arguments),
        pytest.raises(SystemExit) as left,
    ):
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(left.value.code or 0), result


def test_the_filter_returns_the_rendered_files_with_octal_modes(values: dict[str, Any]) -> None:
    files = load("filter", "kv_render").FilterModule().filters()["kv_profile_files"](values)
    expected = render.profile(ProfileSpec.from_mapping(values)).files
    assert {name: file["content"] for name, file in files.items()} == {
        n: f.content for n, f in expected.items()
    }
    assert (files["secret.env"]["mode"], files["secret.env"]["secret"]) == ("0600", True)
    assert (files["env"]["mode"], files["env"]["secret"]) == ("0644", False)


@pytest.mark.parametrize(("spoilt", "word"), [({"mode": "x"}, "mode"), ({"name": "x"}, "baseline")])
def test_the_filter_fails_with_the_sentence(
    values: dict[str, Any], spoilt: dict[str, Any], word: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=word):
        load("filter", "kv_render").kv_profile_files(values | spoilt)


def test_the_filter_takes_dictionaries_only() -> None:
    with pytest.raises(AnsibleFilterError, match="dictionary"):
        load("filter", "kv_render").kv_profile_files("text")


def test_the_module_reports_every_error_of_every_file_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(FIXTURES / "document-lmcache.yaml"), str(FIXTURES / "document-cufile.json")]
    status, result = lint(capsys, paths=paths)
    assert (status, result["failed"], result["changed"]) == (1, True, False)
    for word in ("LMC014", "NIX005", "CUF013"):
        assert word in result["msg"]
    assert result["errors"] == sum(f["severity"] == "error" for f in result["findings"])
    assert {f["file"] for f in result["findings"]} == set(paths)


def test_the_module_can_report_without_failing(capsys: pytest.CaptureFixture[str]) -> None:
    status, result = lint(capsys, paths=[str(FIXTURES / "document-lmcache.yaml")], fail_on_error=False)
    assert (status, result["errors"] > 0) == (0, True)


def test_the_module_fails_in_a_sentence_for_a_file_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, result = lint(capsys, paths=[str(tmp_path / "none.yaml")])
    assert status == 1
    assert "cannot be read" in result["msg"]


def test_a_clean_file_is_ok_in_the_module(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, values: dict[str, Any]
) -> None:
    file = tmp_path / "cufile.json"
    file.write_text(render.profile(ProfileSpec.from_mapping(values)).files["cufile.json"].content)
    status, result = lint(capsys, paths=[str(file)], addresses=["127.0.0.1"])
    assert (status, result["errors"], result["findings"]) == (0, 0, [])


def test_the_epoch_filter_names_a_bucket_before_there_is_one(values: dict[str, Any]) -> None:
    epoch_of = load("filter", "kv_render").FilterModule().filters()["kv_profile_epoch"]
    del values["bucket"]
    found = epoch_of(values)
    assert epoch_of(values, "kv-lab") == f"kv-lab-{found}"
    with pytest.raises(AnsibleFilterError, match="too long"):
        epoch_of(values, "x" * 60)
    with pytest.raises(AnsibleFilterError, match="dictionary"):
        epoch_of(None)
