"""What kvlab size, lint and stack cannot use is one sentence on stderr and exit 2, whatever is wrong with it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlab.cli import main

ROOT = Path(__file__).parents[3]
DOCUMENT = str(ROOT / "tests" / "fixtures" / "kvcache" / "document-lmcache.yaml")
STACK = (ROOT / "stacks" / "current-cpu.yml").read_text()
LONG = "9" * 5000
"""More digits than Python turns into a number."""
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "torch_dtype": "bfloat16",
}


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """The sentence with which kvlab refuses these arguments."""
    monkeypatch.setattr(sys, "argv", ["kvlab", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("kvlab: ")
    assert err.count("\n") == 1
    assert len(err) < 500
    return err


def config(**changes: Any) -> bytes:
    return json.dumps(CONFIG | changes).encode()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not JSON"),
        (b"null", "not a JSON object"),
        (b"\x00\x80\xff", "not a text file"),
        (config() + b"\xff", "not a text file"),
        (json.dumps(CONFIG).encode("utf-16"), "not a text file"),
        (b'{"num_hidden_layers":' + LONG.encode() + b"}", "thousands of digits"),
        (b'{"a":' * 50_000, "nested"),
        (b'{"model_type":"llama","model_type":"llama"}', "model_type twice"),
        (config(num_hidden_layers=float("nan")), "num_hidden_layers is nan"),
        (config(head_dim=float("inf")), "head_dim is inf"),
        (config(num_hidden_layers=8.5), "num_hidden_layers is 8.5"),
        (config(head_dim="64"), "head_dim is '64'"),
        (config(model_type=["llama"]), "no model_type"),
        (config(layer_types=[[1]] * 8), "layer type"),
        (config(layer_types=[{}] * 8), "layer type"),
        (config(torch_dtype={"a": 1}), "dtype"),
        (config(num_kv_shared_layers=-5), "num_kv_shared_layers is -5"),
        (config(num_kv_shared_layers=8), "num_kv_shared_layers is 8"),
        (config(num_kv_shared_layers=True), "num_kv_shared_layers is True"),
        (config(max_position_embeddings=-1), "max_position_embeddings"),
        (config(model_type="gemma3_text", sliding_window="x"), "sliding_window"),
        (config(model_type="gemma3_text", sliding_window=9, sliding_window_pattern="XY"), "layer_types"),
        (config(model_type="gemma3_text", sliding_window=9, sliding_window_pattern=True), "layer_types"),
        (config(model_type="bamba", attn_layer_indices="abc"), "layer_types"),
        (config(model_type="jamba", attn_layer_period=2, attn_layer_offset=7), "no layer"),
        (
            config(
                model_type="kimi_linear",
                kv_lora_rank=1,
                qk_rope_head_dim=1,
                linear_attn_config={"full_attn_layers": "1"},
            ),
            "layer_types",
        ),
    ],
)
def test_a_config_json_that_cannot_be_sized(
    content: bytes,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert word in refused(capsys, monkeypatch, "size", "--config", str(file), "--tokens", "1")


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.yaml", b"", "empty"),
        ("a.yaml", b"hello", "mapping"),
        ("a.yaml", b"\x80\x81", "not a text file"),
        ("a.yaml", b"a: 1\x00", "not YAML"),
        ("a.yaml", b"\ta: 1", "not YAML"),
        ("a.yaml", b"a: 1\n---\nb: 2", "another document"),
        ("a.yaml", b"? [a]\n: b", "unhashable"),
        ("a.yaml", b"<<: 3", "merging"),
        ("a.yaml", b"a: !!timestamp x", "tag"),
        ("a.yaml", b"a: !!bool x", "tag"),
        ("a.yaml", b"a: !!binary zzz", "base64"),
        ("a.yaml", b"chunk_size: " + LONG.encode(), "longer than any setting"),
        ("a.yaml", b"nixl_buffer_size: 0x" + b"f" * 6000, "longer than any setting"),
        ("a.json", b"{", "not JSON"),
        ("a.args", b"[]", "neither vLLM nor LMCache"),
    ],
)
def test_a_file_that_cannot_be_linted(
    name: str,
    content: bytes,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    assert word in refused(capsys, monkeypatch, "lint", str(file))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["size"], "--tokens"),
        (["size", "--config", "/", "--tokens", "1"], "regular file"),
        (["size", "--config", "/dev/null", "--tokens", "1"], "regular file"),
        (["size", "--preset", "Qwen3-32B", "--tokens", "1", "--tp", "0"], "tp is 0"),
        (["size", "--preset", "Qwen3-32B", "--tokens", "1", "--pp", "-2"], "pp is -2"),
        (["size", "--preset", "Qwen3-32B", "--tokens", "1", "--chunk-size", "0"], "chunk size is 0"),
        (["size", "--preset", "Qwen3-32B", "--tokens", "9" * 30], "tokens is 999"),
        (["lint", DOCUMENT, "--lmcache", ""], "no data"),
        (["lint", DOCUMENT, "--lmcache", "0.4"], "0.5.6"),
        (["lint", DOCUMENT, "--lmcache", "../../etc"], "holds no LMCache"),
        (["lint", DOCUMENT, "--nixl", "1." + LONG], "not a version"),
        (["lint", DOCUMENT, "--vllm", "-1"], "not a version"),
        (["lint", DOCUMENT, "--model", "/"], "regular file"),
        (["lint", DOCUMENT, "--model", "Qwen3-32B", "--tp", "3"], "8 KV heads"),
        (["lint", DOCUMENT, "--env", "/"], "regular file"),
        (["stack", "lock", "no-such", "--stacks", str(ROOT / "stacks")], "current-cpu"),
        (["stack", "lock", "../x", "--stacks", str(ROOT / "stacks")], "no stack named"),
        (["stack", "list", "--stacks", "/no/such/folder"], "holds no stack files"),
        (["stack", "list", "--stacks", DOCUMENT], "holds no stack files"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: list[str],
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert word in refused(capsys, monkeypatch, *arguments)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "empty"),
        ("- a", "mapping"),
        ("a: [", "not YAML"),
        ("\udc80", "not a text file"),
        ("name: x", "lacks summary"),
        (STACK.replace("packages:", "packages: 3\nrest:", 1), "packages is not a mapping"),
        (STACK.replace('python: ["3.11", "3.12"]', "python: 3"), "python is not a list"),
        (STACK.replace('python: ["3.11", "3.12"]', "python: [3.11]"), "in quotes"),
        (STACK.replace("overrides: {}", "overrides: []"), "overrides is not a mapping"),
        (STACK.replace("additional: [", "additional: 4 # ["), "additional is not a list"),
        (STACK.replace("name: current-cpu", "name: [1]"), "name is not a text"),
        (STACK.replace("proven: ran-simulated", "proven: hoped"), "proven: hoped"),
        (STACK.replace("version: 2.13.0", "build: 2.13.0"), "torch needs"),
        (STACK.replace("version: 0.32.0", "version: 0.32"), "vllm needs"),
        (STACK.replace("version: 0.5.6", "version: newest"), "lmcache: 'newest'"),
        (STACK + "\nname: again\n", "name twice"),
    ],
)
def test_a_stack_file_that_is_not_whole(
    content: str,
    word: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "x.yml").write_bytes(os.fsencode(content))
    assert word in refused(capsys, monkeypatch, "stack", "list", "--stacks", str(tmp_path))


@pytest.mark.parametrize("value", ["[" * 5000, "{" + f'"a":{LONG}' + "}", "3", "null"])
def test_an_argument_that_is_no_json_object_is_a_finding(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for program, flag, code in (
        ("vllm", "--kv-transfer-config", "VLM004"),
        ("lmcache", "--l2-adapter", "MPS007"),
    ):
        file = tmp_path / f"{program}.args"
        file.write_text(json.dumps(["-m", program, flag, value]))
        monkeypatch.setattr(sys, "argv", ["kvlab", "lint", str(file)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        assert code in capsys.readouterr().out


@pytest.mark.parametrize("seed", [LONG, "٣", "4294967296"])
def test_a_hash_seed_that_python_refuses_is_a_finding(
    seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "env"
    file.write_text(f"PYTHONHASHSEED={seed}\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["kvlab", "lint", DOCUMENT, "--env", str(file)])
    with pytest.raises(SystemExit):
        main()
    assert "stops Python" in capsys.readouterr().out
