"""The size of a KV cache follows from config.json alone."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.modelconfig import preset, presets

MIB = 1024**2


def config(**changes: Any) -> dict[str, Any]:
    base = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "torch_dtype": "bfloat16",
    }
    return {k: v for k, v in (base | changes).items() if v is not None}


def test_the_documents_64000_tokens_are_250_chunks_and_8388608000_bytes() -> None:
    llama = Geometry.from_config(preset("Llama-3.1-8B-Instruct"))
    assert llama.bytes_per_token == 131_072
    assert llama.object_bytes == 32 * MIB
    assert llama.chunks(64_000) == 250
    assert llama.buffer_bytes_per_rank(64_000) == 8_388_608_000


def test_the_documents_buffer_of_8589934592_bytes_is_for_65536_tokens_not_for_64000() -> None:
    llama = Geometry.from_config(preset("Llama-3.1-8B-Instruct"))
    assert llama.buffer_bytes_per_rank(65_536) == 8_589_934_592
    assert llama.chunks(65_536) == 256


def test_235000_tokens_of_qwen3_coder_are_23_gb_and_not_the_documents_43() -> None:
    qwen = Geometry.from_config(preset("Qwen3-Coder-30B-A3B-Instruct"), tp=4)
    assert qwen.bytes_per_token == 98_304
    assert qwen.bytes_per_token_per_rank == 24_576
    assert qwen.object_bytes == 6 * MIB
    assert qwen.objects(235_000) == 3_668
    assert qwen.request_bytes(235_000) == 23_101_440_000
    assert qwen.total_bytes(235_000) == 3_668 * 6 * MIB
    assert qwen.buffer_bytes_per_rank(235_000) == 5_775_556_608
    # The document's figure is exactly twice this, in GiB.
    assert 2 * qwen.request_bytes(235_000) / 1024**3 == pytest.approx(43.03, abs=0.01)


@pytest.mark.parametrize(
    ("tokens", "objects"), [(4096, 64), (8192, 128), (16_384, 256), (65_536, 1024), (131_072, 2048)]
)
def test_a_bucket_holds_one_object_per_whole_chunk_and_rank(tokens: int, objects: int) -> None:
    assert Geometry.from_config(preset("Qwen3-Coder-30B-A3B-Instruct"), tp=4).objects(tokens) == objects


def test_an_unfinished_chunk_is_not_stored_but_needs_room_in_the_buffer() -> None:
    g = Geometry.from_config(config())
    assert g.objects(255) == 0
    assert g.total_bytes(255) == 0
    assert g.buffer_bytes_per_rank(255) == g.object_bytes


@pytest.mark.parametrize(
    ("name", "tp", "per_token"),
    [
        ("Llama-3.1-70B-Instruct", 4, 327_680),
        ("Qwen3-32B", 4, 262_144),
        ("DeepSeek-V3", 1, 70_272),
        ("DeepSeek-R1", 8, 70_272),
        ("gpt-oss-120b", 1, 73_728),
    ],
)
def test_presets_have_the_published_bytes_per_token(name: str, tp: int, per_token: int) -> None:
    assert Geometry.from_config(preset(name), tp=tp).bytes_per_token == per_token


def test_every_preset_can_be_sized() -> None:
    for name, values in presets().items():
        assert Geometry.from_config(values).bytes_per_token > 0, name


def test_fp8_halves_the_cache() -> None:
    assert Geometry.from_config(config(), kv_dtype="fp8").bytes_per_token == 65_536


def test_multi_head_attention_keeps_one_kv_head_per_query_head() -> None:
    assert Geometry.from_config(config(num_key_value_heads=None)).bytes_per_token == 4 * 131_072


def test_multi_query_attention_is_kept_whole_on_every_rank() -> None:
    g = Geometry.from_config(config(num_key_value_heads=1), tp=4)
    assert g.bytes_per_token_per_rank == 131_072 // 8
    assert g.bytes_per_token == 4 * g.bytes_per_token_per_rank
    assert any("kept 4 times" in w for w in g.warnings)


def test_grouped_heads_are_replicated_when_ranks_outnumber_them() -> None:
    g = Geometry.from_config(config(), tp=16)
    assert g.bytes_per_token == 2 * 131_072


def test_mla_is_not_divided_by_tensor_parallelism_and_one_rank_stores_it() -> None:
    one, eight = (Geometry.from_config(preset("DeepSeek-V3"), tp=tp) for tp in (1, 8))
    assert one.object_bytes == eight.object_bytes == 70_272 * 256
    assert one.objects(131_072) == eight.objects(131_072) == 512
    assert eight.total_bytes(131_072) == 9_210_691_584


def test_pipeline_stages_split_the_layers_as_vllm_does() -> None:
    g = Geometry.from_config(config(num_hidden_layers=30), pp=4)
    per_layer = 131_072 // 32
    assert g.stage_bytes_per_token == tuple(n * per_layer for n in (7, 8, 8, 7))
    assert g.bytes_per_token == 30 * per_layer
    assert g.objects(256) == 4


def test_sliding_layers_are_counted_at_full_length_and_said_so() -> None:
    g = Geometry.from_config(preset("gpt-oss-120b"))
    assert (g.windowed_layers, g.window) == (18, 128)
    assert g.bytes_per_token_full_attention == 36_864
    assert any("18 of 36" in w for w in g.warnings)


@pytest.mark.parametrize("model_type", ["gpt_oss", "gemma2"])
def test_alternating_models_begin_with_a_sliding_layer(model_type: str) -> None:
    g = Geometry.from_config(config(model_type=model_type, num_hidden_layers=6, sliding_window=128), pp=2)
    assert [w / t for w, t in zip(g.stage_window_bytes_per_token, g.stage_bytes_per_token, strict=True)] == [
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    ]


def test_gemma3_has_one_full_layer_in_six() -> None:
    g = Geometry.from_config(config(model_type="gemma3_text", num_hidden_layers=26, sliding_window=512))
    assert g.attention_layers - g.windowed_layers == 4


def test_an_unused_window_is_no_window() -> None:
    g = Geometry.from_config(config(model_type="qwen2", sliding_window=4096, use_sliding_window=False))
    assert (g.windowed_layers, g.warnings) == (0, ())


def test_only_the_attention_layers_of_a_hybrid_model_count() -> None:
    types = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 12
    by_list = Geometry.from_config(config(model_type="qwen3_next", num_hidden_layers=48, layer_types=types))
    by_rule = Geometry.from_config(
        config(model_type="qwen3_next", num_hidden_layers=48, full_attention_interval=4)
    )
    assert by_list == by_rule
    assert (by_list.attention_layers, by_list.linear_layers) == (12, 36)
    assert by_list.bytes_per_token == 12 * 131_072 // 32
    assert any("36 of 48" in w for w in by_list.warnings)


def test_the_patterns_of_jamba_and_nemotron_h_say_which_layers_attend() -> None:
    jamba = Geometry.from_config(
        config(model_type="jamba", num_hidden_layers=32, attn_layer_period=8, attn_layer_offset=4)
    )
    nemotron = Geometry.from_config(
        config(model_type="nemotron_h", num_hidden_layers=8, hybrid_override_pattern="M-M*-M-*")
    )
    assert (jamba.attention_layers, jamba.linear_layers) == (4, 28)
    assert (nemotron.attention_layers, nemotron.linear_layers) == (2, 3)


def test_layers_that_share_the_cache_of_others_store_none() -> None:
    full = Geometry.from_config(config())
    assert (
        Geometry.from_config(config(num_kv_shared_layers=8)).bytes_per_token == full.bytes_per_token * 3 // 4
    )


def test_experts_do_not_change_the_cache() -> None:
    dense = Geometry.from_config(config(model_type="qwen3"))
    sparse = Geometry.from_config(config(model_type="qwen3_moe", num_experts=128))
    assert dense.bytes_per_token == sparse.bytes_per_token


def test_a_nested_text_config_is_the_one_that_counts() -> None:
    nested = {"model_type": "mistral3", "hidden_size": 1, "text_config": config(model_type="mistral")}
    assert Geometry.from_config(nested).bytes_per_token == 131_072


def test_head_dim_wins_over_the_hidden_size() -> None:
    assert Geometry.from_config(config(head_dim=64)).bytes_per_token == 65_536


def test_float32_weights_are_served_in_16_bits_and_that_is_said() -> None:
    g = Geometry.from_config(config(torch_dtype="float32"))
    assert g.bytes_per_token == 131_072
    assert any("float32" in w for w in g.warnings)
    assert Geometry.from_config(config(torch_dtype="float32"), kv_dtype="fp32").bytes_per_token == 262_144


def test_a_missing_dtype_is_said_and_not_hidden() -> None:
    assert any("names no dtype" in w for w in Geometry.from_config(config(torch_dtype=None)).warnings)


def test_a_checkpoint_with_its_own_kv_quantisation_is_named() -> None:
    g = Geometry.from_config(config(quantization_config={"kv_cache_scheme": {"num_bits": 8}}))
    assert any("quantisation" in w for w in g.warnings)


def test_requests_that_fit_a_gpu_are_counted_in_whole_vllm_blocks() -> None:
    g = Geometry.from_config(config())
    block = 16 * 131_072
    assert g.requests_in(10 * block, 17) == 5
    assert g.requests_in(block, 17) == 0


def test_a_request_longer_than_the_model_allows_is_a_warning() -> None:
    report = Geometry.from_config(preset("Llama-3.1-8B-Instruct")).report(200_000)
    assert any("131072" in w for w in report["warnings"])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model_type": None}, "model_type"),
        ({"model_type": "no_such_model"}, "no_such_model"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_hidden_layers": -1}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": 4097}, "4097"),
        ({"num_attention_heads": "32"}, "num_attention_heads"),
        ({"num_key_value_heads": [8, 4]}, "differ"),
        ({"torch_dtype": "int3"}, "int3"),
        ({"model_type": "mamba2"}, "no KV cache"),
        ({"model_type": "whisper"}, "cross-attention"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank"),
        ({"model_type": "qwen3_next"}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["strange"] * 32}, "strange"),
    ],
)
def test_a_config_that_does_not_say_enough_is_one_clear_error(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(KvlabError, match=word):
        Geometry.from_config(config(**changes))


@pytest.mark.parametrize(
    "arguments",
    [
        {"tp": 0},
        {"tp": -1},
        {"tp": 3},
        {"tp": 10**9},
        {"pp": 0},
        {"pp": 33},
        {"chunk_size": 0},
        {"kv_dtype": "int8"},
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(KvlabError):
        Geometry.from_config(config(), **arguments)


@pytest.mark.parametrize("tokens", [0, -1, 10**12, True, 1.5])
def test_impossible_token_counts_are_refused(tokens: Any) -> None:
    with pytest.raises(KvlabError, match="tokens"):
        Geometry.from_config(config()).report(tokens)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"num_attention_heads": 32, "num_key_value_heads": 5},
            "32 attention heads cannot be divided among 5 KV heads",
        ),
        ({"head_dim": 10**30}, "which no model has"),
        ({"sliding_window": ""}, "sliding_window is ''"),
    ],
)
def test_numbers_that_no_model_has_are_refused(change: dict[str, Any], words: str) -> None:
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
    config |= {"hidden_size": 4096, "dtype": "bfloat16"}
    with pytest.raises(KvlabError, match=words):
        Geometry.from_config({**config, **change})
