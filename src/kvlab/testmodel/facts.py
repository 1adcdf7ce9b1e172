"""What a Hugging Face model directory says of itself, without loading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin", "consolidated*.pth")


@dataclass(frozen=True)
class ModelFacts:
    """Shape of a model. `kv_bytes_per_token` is K and V of all layers, in the model's own dtype.

    It is None where the directory does not say it: a dtype that is none of float32, float16 and bfloat16, or an
    attention that does not keep K and V of every token per head (latent, sliding, linear).
    """

    architecture: str
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    dtype: str | None
    max_position_embeddings: int
    vocab: int
    kv_bytes_per_token: int | None


def inspect_model(path: Path) -> ModelFacts:
    """Read the shape of the model in directory `path` from its config.json.

    The language part of a multimodal model (`text_config`) is what is read.

    Raises:
        KvlabError: the directory, its config.json, its tokenizer or its weights are missing, config.json is not
            a JSON object, or it lacks a field that the shape needs.
    """
    if not path.is_dir():
        raise KvlabError(
            f"There is no model directory {path}; name one that is there, or none for the test model."
        )
    config = _config(path / "config.json")
    if not any((path / name).is_file() for name in _TOKENIZER_FILES):
        raise KvlabError(
            f"{path} has no tokenizer file ({', '.join(_TOKENIZER_FILES)}); complete the download."
        )
    if not any(weights.is_file() for pattern in _WEIGHT_PATTERNS for weights in path.glob(pattern)):
        raise KvlabError(f"{path} has no weights ({', '.join(_WEIGHT_PATTERNS)}); complete the download.")
    return _facts(path / "config.json", config)


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise KvlabError(
            f"{file.parent} has no config.json, so it is no Hugging Face model directory; name one that is."
        ) from None
    except OSError as error:
        raise KvlabError(f"{file} cannot be read ({error.strerror}); mend its permissions.") from error
    except ValueError as error:
        raise KvlabError(f"{file} is not JSON ({error}); download the model again.") from error
    if not isinstance(config, dict):
        raise KvlabError(f"{file} is not a JSON object; download the model again.")
    return config


def _facts(file: Path, config: dict[str, Any]) -> ModelFacts:
    inner = config.get("text_config")
    text: dict[str, Any] = inner if isinstance(inner, dict) else config
    architectures = config.get("architectures")
    needed = (
        "num_hidden_layers",
        "num_attention_heads",
        "hidden_size",
        "max_position_embeddings",
        "vocab_size",
    )
    missing = [name for name in needed if not _is_count(text.get(name))]
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    if not isinstance(architecture, str):
        missing.insert(0, "architectures")
    if missing:
        raise KvlabError(
            f"{file} does not give {', '.join(missing)} as vLLM needs; name a Hugging Face language model."
        )
    heads, hidden, layers = text["num_attention_heads"], text["hidden_size"], text["num_hidden_layers"]
    kv_heads = text["num_key_value_heads"] if _is_count(text.get("num_key_value_heads")) else heads
    head_dim = text["head_dim"] if _is_count(text.get("head_dim")) else hidden // heads
    # transformers 5 writes `dtype`, earlier releases `torch_dtype`.
    named = [part.get(key) for part in (text, config) for key in ("dtype", "torch_dtype")]
    dtype = next((name for name in named if isinstance(name, str)), None)
    width = _BYTES.get(dtype) if dtype else None
    kinds = set(text.get("layer_types") or ["full_attention"])
    per_head = kinds == {"full_attention"} and not text.get("kv_lora_rank")
    return ModelFacts(
        architecture=str(architecture),
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        dtype=dtype,
        max_position_embeddings=text["max_position_embeddings"],
        vocab=text["vocab_size"],
        kv_bytes_per_token=layers * kv_heads * head_dim * 2 * width if width and per_head else None,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
