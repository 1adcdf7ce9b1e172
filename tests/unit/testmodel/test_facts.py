"""The shape of a model directory, and one sentence for each that is no model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.testmodel import ModelFacts, inspect_model
from kvlab.testmodel.make import make

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
}


def directory(tmp_path: Path, config: object, without: str = "") -> Path:
    for name in {"config.json", "tokenizer.json", "model-00001-of-00002.safetensors"} - {without}:
        (tmp_path / name).write_text(config if isinstance(config, str) else json.dumps(config))
    return tmp_path


def test_the_test_model_keeps_4096_bytes_a_token(tmp_path: Path) -> None:
    make(tmp_path / "m")
    assert inspect_model(tmp_path / "m") == ModelFacts(
        architecture="LlamaForCausalLM",
        layers=8,
        kv_heads=2,
        head_dim=64,
        hidden=192,
        dtype="bfloat16",
        max_position_embeddings=32768,
        vocab=320,
        kv_bytes_per_token=4096,
    )


def test_an_8b_llama_keeps_128_kib_a_token_and_its_head_size_is_hidden_over_heads(tmp_path: Path) -> None:
    facts = inspect_model(directory(tmp_path, LLAMA))
    assert (facts.head_dim, facts.kv_heads, facts.kv_bytes_per_token) == (128, 8, 128 * 1024)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_key_value_heads": None}, 512 * 1024),
        ({"head_dim": 64}, 64 * 1024),
        ({"torch_dtype": "float32"}, 256 * 1024),
        ({"dtype": "float16", "torch_dtype": "float32"}, 128 * 1024),
        ({"layer_types": ["full_attention"] * 32}, 128 * 1024),
        ({"torch_dtype": "auto"}, None),
        ({"torch_dtype": None}, None),
        ({"kv_lora_rank": 512}, None),
        ({"layer_types": ["sliding_attention", "full_attention"]}, None),
    ],
)
def test_bytes_of_kv_follow_the_config_or_are_unknown(
    tmp_path: Path, change: dict[str, Any], expected: int | None
) -> None:
    assert inspect_model(directory(tmp_path, LLAMA | change)).kv_bytes_per_token == expected


def test_of_a_multimodal_model_the_language_part_counts(tmp_path: Path) -> None:
    outer = {"architectures": ["LlavaForConditionalGeneration"], "dtype": "float16", "text_config": LLAMA}
    facts = inspect_model(directory(tmp_path, outer))
    assert (facts.architecture, facts.layers, facts.dtype) == (
        "LlavaForConditionalGeneration",
        32,
        "bfloat16",
    )


@pytest.mark.parametrize(
    ("config", "without", "sentence"),
    [
        (LLAMA, "config.json", "has no config.json"),
        (LLAMA, "tokenizer.json", "has no tokenizer file"),
        (LLAMA, "model-00001-of-00002.safetensors", "has no weights"),
        ("{ half", "", "is not JSON"),
        ("[1]", "", "is not a JSON object"),
        (
            {**LLAMA, "num_hidden_layers": None, "vocab_size": "many"},
            "",
            "does not give num_hidden_layers, vocab_size",
        ),
        ({**LLAMA, "max_position_embeddings": 0}, "", "does not give max_position_embeddings"),
        ({**LLAMA, "hidden_size": True}, "", "does not give hidden_size"),
        ({**LLAMA, "architectures": []}, "", "does not give architectures"),
        ({"text_config": LLAMA}, "", "does not give architectures"),
    ],
)
def test_a_directory_that_is_no_model_is_named_in_one_sentence(
    tmp_path: Path, config: object, without: str, sentence: str
) -> None:
    with pytest.raises(KvlabError, match=sentence) as caught:
        inspect_model(directory(tmp_path, config, without))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_not_json(tmp_path: Path) -> None:
    directory(tmp_path, LLAMA)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(KvlabError, match="is not JSON"):
        inspect_model(tmp_path)


def test_a_missing_directory_or_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(KvlabError, match=re.escape(f"no model directory {path}; name one")):
            inspect_model(path)


def test_weights_that_are_a_dangling_link_are_no_weights(tmp_path: Path) -> None:
    """A download cache that was emptied leaves such links."""
    directory(tmp_path, LLAMA, without="model-00001-of-00002.safetensors")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "gone")
    with pytest.raises(KvlabError, match="has no weights"):
        inspect_model(tmp_path)
