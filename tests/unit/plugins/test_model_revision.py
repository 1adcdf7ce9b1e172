"""Other weights have another revision, and the same ones always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvlab.kvcache import weights


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model-1.safetensors").write_bytes(bytes(1000))
    (folder / "model-2.safetensors").write_bytes(bytes(8 * 1024 * 1024))
    return folder


def test_the_revision_does_not_depend_on_place_and_time(run: Any, model: Path) -> None:
    first = run("model_revision", path=str(model))
    moved = model.rename(model.with_name("moved"))
    assert (first["changed"], len(first["revision"])) == (False, 64)
    assert run("model_revision", path=str(moved))["revision"] == first["revision"]


@pytest.mark.parametrize("offset", [0, 4 * 1024 * 1024, -1])
def test_other_weights_have_another_revision(model: Path, offset: int) -> None:
    before = weights.revision(str(model))
    file = model / "model-2.safetensors"
    content = bytearray(file.read_bytes())
    # A new checkpoint differs throughout; here one sample's width of it does.
    start = offset % len(content)
    content[max(0, start - 131072) : start + 131072] = b"\1" * len(
        content[max(0, start - 131072) : start + 131072]
    )
    file.write_bytes(content)
    assert weights.revision(str(model)) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model-3.safetensors"])
def test_another_description_or_file_is_another_revision(model: Path, name: str) -> None:
    before = weights.revision(str(model))
    (model / name).write_text('{"x": 1}')
    assert weights.revision(str(model)) != before


@pytest.mark.parametrize("name", ["none", "model/config.json"])
def test_what_is_no_model_is_a_sentence(run: Any, model: Path, name: str) -> None:
    assert "cannot be read" in run("model_revision", path=str(model.parent / name))["msg"]
    for file in model.glob("*.safetensors"):
        file.unlink()
    assert "holds no weights" in run("model_revision", path=str(model))["msg"]
