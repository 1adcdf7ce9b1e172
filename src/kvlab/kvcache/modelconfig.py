"""Reads the layers of a model that keep KV out of its Hugging Face `config.json`.

The result is a list of layers, each with its kind and the width of what it stores. Layer kinds follow the
config's own `layer_types` where it has them, else the family's rule (a period, a pattern, a list).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kvlab.errors import KvlabError

LayerKind = Literal["full", "sliding", "chunked", "linear", "shared", "none"]
"""`sliding` and `chunked` look back over a window; `linear` keeps a state of fixed size (Mamba, linear
attention); `shared` reads the KV of an earlier layer and stores none; `none` has no attention at all."""

STORED: frozenset[LayerKind] = frozenset(("full", "sliding", "chunked"))
WINDOWED: frozenset[LayerKind] = frozenset(("sliding", "chunked"))

_KIND_OF_TYPE: Mapping[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "linear",
    "conv": "linear",
}

_DTYPE_NAMES: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}


@dataclass(frozen=True)
class Layer:
    """One layer: what it keeps, KV heads, and elements a head stores for a token, K and V together."""

    kind: LayerKind
    kv_heads: int
    elements_per_head: int


@dataclass(frozen=True)
class ModelShape:
    """What a config says about KV: layers in order, the weights' dtype, and what it leaves open."""

    model_type: str
    layers: tuple[Layer, ...]
    mla: bool
    query_heads: int
    dtype: str
    window: int | None
    max_tokens: int | None
    notes: tuple[str, ...]


def read_model(config: Mapping[str, Any]) -> ModelShape:
    """The KV-relevant shape of a model from its `config.json` as a mapping.

    Raises:
        KvlabError: a needed field is missing or absurd, or the model type is not one whose layout is known.
    """
    outer_type = config.get("model_type")
    text = _text_config(config)
    model_type = text.get("model_type") or outer_type
    if not isinstance(model_type, str) or not model_type:
        raise KvlabError("config.json has no model_type; give the config.json of the model itself.")
    family = _family(model_type, outer_type)
    notes: list[str] = []
    mla = family.startswith(("mla", "hybrid_mla"))
    layers_total = _positive(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    query_heads = _positive(text, "num_attention_heads", "n_head", "n_heads", default=1 if mla else None)
    if _varies_by_layer(text):
        raise KvlabError(
            f"the layers of this {model_type} model differ in their number of KV heads (block_configs or "
            "a list of heads); the size cannot be computed from one figure for all layers."
        )
    if mla:
        width = _positive(text, "kv_lora_rank") + _positive(text, "qk_rope_head_dim")
        kv_heads, elements = 1, width
        if family == "mla_with_indexer":
            notes.append(
                "this family also stores an index key per layer and token, whose size depends on the vLLM "
                "version; it is not in these numbers."
            )
    else:
        kv_heads = _kv_heads(text, model_type, query_heads)
        if query_heads % kv_heads:
            raise KvlabError(
                f"config.json: {query_heads} attention heads cannot be divided among {kv_heads} KV heads; correct one."
            )
        elements = 2 * _head_size(text, query_heads)
    kinds = _layer_kinds(text, model_type, layers_total, family)
    if model_type == "falcon_h1":
        notes.append("every layer also keeps a Mamba state of fixed size per request, not in these numbers.")
    if not STORED.intersection(kinds):
        raise KvlabError(
            f"no layer of this {model_type} model keeps a KV cache; there is nothing to offload."
        )
    return ModelShape(
        model_type=model_type,
        layers=tuple(Layer(kind, kv_heads, elements) for kind in kinds),
        mla=mla,
        query_heads=query_heads,
        dtype=_dtype(config, text, notes),
        window=_window(text, kinds),
        max_tokens=_optional(text, "max_position_embeddings", "n_positions", "seq_length", "max_seq_len"),
        notes=tuple(notes),
    )


@cache
def _data(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return data


@cache
def _families() -> dict[str, str]:
    data = _data("families.json")
    return {name: layout for layout, names in data.items() if layout[0] != "_" for name in names}


def _family(model_type: str, outer_type: object) -> str:
    families = _families()
    family = families.get(model_type) or families.get(str(outer_type))
    if family is None:
        raise KvlabError(
            f"model type {model_type!r} is not one whose KV layout kvlab knows. If it stores K and V per "
            "head like Llama, set model_type to llama in a copy of the config and run again."
        )
    if family == "no_cache":
        raise KvlabError(f"models of type {model_type!r} keep no KV cache; there is nothing to offload.")
    if family == "encoder_decoder":
        raise KvlabError(
            f"models of type {model_type!r} have cross-attention, whose cache depends on the encoder's "
            "input; its size cannot be computed from config.json."
        )
    return family


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a multimodal config, or the config itself."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            return inner
    return config


def _optional(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise KvlabError(f"config.json: {key} is {value!r}; it must be a positive whole number.")
        return value
    return None


def _positive(config: Mapping[str, Any], *keys: str, default: int | None = None) -> int:
    value = _optional(config, *keys)
    if value is None:
        value = default
    if value is None:
        raise KvlabError(f"config.json has no {keys[0]}, which the size of the KV cache depends on.")
    if value > 1_000_000:
        raise KvlabError(f"config.json: {keys[0]} is {value}, which no model has.")
    return value


def _varies_by_layer(config: Mapping[str, Any]) -> bool:
    return bool(config.get("block_configs")) or isinstance(config.get("num_key_value_heads"), Sequence)


def _kv_heads(config: Mapping[str, Any], model_type: str, query_heads: int) -> int:
    if model_type == "falcon":
        if config.get("new_decoder_architecture"):
            return _positive(config, "num_kv_heads", default=query_heads)
        return 1 if config.get("multi_query", True) else query_heads
    if model_type == "gpt_bigcode":
        return 1 if config.get("multi_query", True) else query_heads
    if model_type == "dbrx":
        inner = config.get("attn_config")
        if isinstance(inner, Mapping):
            return _positive(inner, "kv_n_heads")
    if model_type == "mpt":
        inner = config.get("attn_config")
        if isinstance(inner, Mapping) and inner.get("kv_n_heads") is not None:
            return _positive(inner, "kv_n_heads")
    if model_type == "chatglm" and config.get("multi_query_attention"):
        return _positive(config, "multi_query_group_num")
    return _positive(config, "num_key_value_heads", "num_kv_heads", "n_head_kv", default=query_heads)


def _head_size(config: Mapping[str, Any], query_heads: int) -> int:
    explicit = _optional(config, "head_dim", "attention_head_dim", "kv_channels")
    if explicit is not None:
        return _positive({"head_dim": explicit}, "head_dim")
    hidden = _positive(config, "hidden_size", "n_embd", "d_model")
    if hidden % query_heads:
        raise KvlabError(
            f"config.json: hidden_size {hidden} is not a multiple of {query_heads} attention heads and "
            "there is no head_dim."
        )
    return hidden // query_heads


def _dtype(outer: Mapping[str, Any], text: Mapping[str, Any], notes: list[str]) -> str:
    """The dtype that vLLM gives the KV cache under `--kv-cache-dtype auto`."""
    quantization = outer.get("quantization_config") or text.get("quantization_config")
    if isinstance(quantization, Mapping) and (
        quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
    ):
        notes.append(
            "the checkpoint carries its own KV cache quantisation; whether 'auto' follows it depends on "
            "the vLLM version. Give --kv-dtype to be sure."
        )
    raw = text.get("dtype") or text.get("torch_dtype") or outer.get("dtype") or outer.get("torch_dtype")
    if raw is None:
        notes.append(
            "config.json names no dtype; 2 bytes an element are assumed. Give --kv-dtype to be sure."
        )
        return "fp16"
    name = _DTYPE_NAMES.get(str(raw).removeprefix("torch."))
    if name is None:
        raise KvlabError(f"config.json: dtype {raw!r} is not one a KV cache has; give --kv-dtype.")
    if name == "fp32":
        notes.append(
            "the weights are float32, which vLLM serves in 16 bits under 'auto'; 2 bytes are counted."
        )
        return "bf16"
    return name


def _window(config: Mapping[str, Any], kinds: Sequence[LayerKind]) -> int | None:
    if "sliding" in kinds:
        return _optional(config, "sliding_window")
    if "chunked" in kinds:
        return _optional(config, "attention_chunk_size")
    return None


def _layer_kinds(config: Mapping[str, Any], model_type: str, total: int, family: str) -> list[LayerKind]:
    """The kind of each layer, in order."""
    explicit = config.get("layer_types")
    if isinstance(explicit, Sequence) and not isinstance(explicit, str) and explicit:
        if len(explicit) < total:
            raise KvlabError(
                f"config.json: layer_types lists {len(explicit)} layers, num_hidden_layers {total}."
            )
        unknown = sorted({str(t) for t in explicit if str(t) not in _KIND_OF_TYPE})
        if unknown:
            raise KvlabError(
                f"config.json: layer type {unknown[0]!r} is not one whose KV layout kvlab knows."
            )
        kinds = [_KIND_OF_TYPE[t] for t in explicit[:total]]
    else:
        kinds = _kinds_by_rule(config, model_type, total, family)
    shared = config.get("num_kv_shared_layers")
    if shared is not None:
        if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared < total:
            raise KvlabError(
                f"config.json: num_kv_shared_layers is {shared!r}; it must be a whole number below {total}, the layers."
            )
        kinds[total - shared :] = ["shared"] * shared
    return kinds


def _kinds_by_rule(config: Mapping[str, Any], model_type: str, total: int, family: str) -> list[LayerKind]:
    def every(period: int, offset: int, other: LayerKind) -> list[LayerKind]:
        return ["full" if i % period == offset else other for i in range(total)]

    if family in ("hybrid", "hybrid_mla"):
        return _hybrid_kinds(config, model_type, total)
    window = config.get("sliding_window")
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 0):
        raise KvlabError(
            f"config.json: sliding_window is {window!r}; it must be a positive whole number, or null."
        )
    if model_type in ("gemma2", "gpt_oss"):
        return every(2, 1, "sliding")
    if model_type in ("gemma3", "gemma3_text", "cohere2", "exaone4", "olmo3"):
        if not window:
            return ["full"] * total
        period = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern")
        if period is None and model_type.startswith("gemma3"):
            period = 6
        if period is None and model_type in ("cohere2", "olmo3"):
            period = 4
        if isinstance(period, str) and period and not period.strip("GL"):
            return [("full" if period[i % len(period)] == "G" else "sliding") for i in range(total)]
        if isinstance(period, bool) or not isinstance(period, int) or period < 1:
            raise KvlabError("config.json says a window but not which layers use it (layer_types).")
        return every(period, period - 1, "sliding")
    if model_type.startswith("llama4"):
        rope = config.get("no_rope_layers")
        if isinstance(rope, Sequence) and len(rope) >= total:
            return ["chunked" if use else "full" for use in rope[:total]]
        return every(4, 3, "chunked")
    if window and config.get("use_sliding_window", True):
        first = config.get("max_window_layers")
        if isinstance(first, int) and model_type.startswith("qwen"):
            return ["sliding" if i >= first else "full" for i in range(total)]
        return ["sliding"] * total
    return ["full"] * total


def _hybrid_kinds(config: Mapping[str, Any], model_type: str, total: int) -> list[LayerKind]:
    if model_type == "falcon_h1":
        # Each layer has both attention and a Mamba state.
        return ["full"] * total
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= total:
        marks: Mapping[str, LayerKind] = {"*": "full", "M": "linear"}
        return [marks.get(mark, "none") for mark in pattern[:total]]
    for key in ("attn_layer_indices", "full_attn_idxs"):
        indices = config.get(key)
        if isinstance(indices, list) and indices:
            return ["full" if i in indices else "linear" for i in range(total)]
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        # Kimi-Linear counts layers from 1.
        return ["full" if i + 1 in linear["full_attn_layers"] else "linear" for i in range(total)]
    types = config.get("attn_type_list")
    if isinstance(types, Sequence) and len(types) >= total:
        return ["full" if t == 1 else "linear" for t in types[:total]]
    interval = config.get("full_attention_interval")
    if isinstance(interval, int) and interval > 0:
        return ["full" if (i + 1) % interval == 0 else "linear" for i in range(total)]
    period, offset = config.get("attn_layer_period"), config.get("attn_layer_offset", 0)
    if isinstance(period, int) and period > 0 and isinstance(offset, int):
        return ["full" if i % period == offset else "linear" for i in range(total)]
    raise KvlabError(f"this {model_type} config.json does not say which layers use attention (layer_types).")


def presets() -> dict[str, dict[str, Any]]:
    """The KV-relevant part of `config.json` of the models that the documents name, by Hugging Face name."""
    return {name: config for name, config in _data("presets.json").items() if name[0] != "_"}


def preset(name: str) -> dict[str, Any]:
    """One preset by its full name or the part after the slash, in any case.

    Raises:
        KvlabError: there is no such preset; the sentence lists those there are.
    """
    known = presets()
    for full, config in known.items():
        if name.lower() in (full.lower(), full.rpartition("/")[2].lower()):
            return config
    raise KvlabError(f"there is no preset {name!r}; there are {', '.join(known)}.")
