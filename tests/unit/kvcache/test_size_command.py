"""kvlab size prints what the geometry says and refuses nonsense in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KEYS = {
    "bytes_per_token",
    "bytes_per_token_per_rank",
    "object_bytes",
    "objects",
    "buffer_bytes_per_rank",
    "total_bytes",
    "warnings",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from kvlab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "size", *arguments], capture_output=True, text=True, check=False
    )


def test_json_has_the_promised_fields(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "hidden_size": 512,
        "dtype": "bfloat16",
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    done = run("--config", str(file), "--tp", "2", "--tokens", "512", "--gpu-memory", "1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report.keys() >= KEYS
    assert (report["bytes_per_token"], report["object_bytes"], report["objects"]) == (4096, 524_288, 4)
    assert report["requests_in_gpu_memory"] == 1024**3 // (512 * 2048)


def test_text_names_bucket_buffer_and_notes() -> None:
    done = run("--preset", "gpt-oss-20b", "--tokens", "131072")
    assert done.returncode == 0
    for part in ("in the bucket", "buffer of one rank", "note: 12 of 24"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"not json", ["--tokens", "1"]),
        (b"[1]", ["--tokens", "1"]),
        (b"\xff\xfe\x00", ["--tokens", "1"]),
        (b"[" * 100_000, ["--tokens", "1"]),
        (b"{}", ["--tokens", "1"]),
        (b"{}", []),
        (b"{}", ["--tokens", "-1", "--preset", "Qwen3-32B"]),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, content: bytes, arguments: list[str]) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    done = run("--config", str(file), *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("kvlab: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("memory", ["nan", "inf", "-1", "0", "1e300"])
def test_absurd_gpu_memory_is_refused(memory: str) -> None:
    done = run("--preset", "Qwen3-32B", "--tokens", "1", "--gpu-memory", memory)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--gpu-memory" in done.stderr


def test_sizing_imports_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['kvlab', 'size', '--preset', 'Qwen3-32B', '--tokens', '1000']\n"
        "from kvlab.cli import kvlab\n"
        "kvlab(standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
