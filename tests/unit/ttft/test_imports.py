"""Results of other tools come in marked as unproven, or with one sentence that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvlab.cli import ttft
from kvlab.errors import KvlabError
from kvlab.ttft import imports, result

DETAILED = {"model_id": "m", "ttfts": [0.5, 0.25, 0.0], "input_lens": [512, 512, 1024]}
TABLE = """
nixlbench banner
Block Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)
4096                1              1.204567       3.4
1048576             8              11.9           88.1
"""


def written(folder: Path, content: Any) -> Path:
    file = folder / "given"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_vllm_requests_become_unproven_hot_passes(tmp_path: Path) -> None:
    found = imports.vllm_serve(written(tmp_path, DETAILED), "s3-rdma", simulated=True)
    assert [(p.context, p.index, p.ttft_first_chunk_s) for p in found.passes] == [
        (512, 0, 0.5),
        (512, 1, 0.25),
        (1024, 0, None),  # a failed request has 0 there
    ]
    assert not any(p.proven for p in found.passes)
    assert found.simulated
    assert result.decode(result.encode(found), "copy").passes == found.passes


def test_rows_of_nixlbench_become_unproven_passes_with_their_bandwidth(tmp_path: Path) -> None:
    found = imports.nixlbench(written(tmp_path, TABLE), "s3-http", simulated=False)
    assert [(p.context, p.counters["bandwidth_gb_s"]) for p in found.passes] == [
        (4096, 1.204567),
        (1048576, 11.9),
    ]
    assert all(p.reasons == [imports.UNPROVEN] for p in found.passes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "holds no object"),
        ({"mean_ttft_ms": 5}, "--save-detailed"),
        ({"ttfts": [1], "input_lens": []}, "--save-detailed"),
        ({"ttfts": ["x"], "input_lens": [5]}, "no measurement"),
        ({"ttfts": [1.0], "input_lens": [0]}, "no measurement"),
    ],
)
def test_what_is_no_result_of_vllm_is_one_sentence(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(KvlabError, match=words):
        imports.vllm_serve(written(tmp_path, content), "s3-rdma", simulated=True)


def test_text_without_a_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="holds no table"):
        imports.nixlbench(written(tmp_path, "nothing here"), "s3-rdma", simulated=True)


def test_the_command_wants_to_know_whether_a_stand_in_took_part(tmp_path: Path) -> None:
    file, out = written(tmp_path, DETAILED), tmp_path / "out.json"
    missing = CliRunner().invoke(ttft.command, ["import", "vllm", str(file), "-o", str(out)])
    assert missing.exit_code == 2
    done = CliRunner().invoke(ttft.command, ["import", "vllm", str(file), "--simulated", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "none of them proven (simulated)" in done.output
    assert result.read(out).simulated
