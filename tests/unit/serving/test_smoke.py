"""One prompt twice: the same answer, and where there is a cache, the second from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from serving_answers import Stand, serving

from kvlab.serving import smoke
from kvlab.serving.lab import Lab


def lab(vllm: Stand, profile: str = "s3-rdma", **more: Any) -> Lab:
    """A lab that is served elsewhere, by the stand."""
    data = {
        "serving_mode": "external",
        "vllm_url": vllm.url,
        "active_profile": profile,
        "profiles": {},
        "simulated": True,
    }
    return Lab(Path("lab.json"), data | more)


def test_the_second_pass_gives_the_same_tokens_and_takes_chunks_from_the_cache() -> None:
    with serving() as vllm:
        found = smoke.run(lab(vllm))
        first, second = vllm.asked
    assert found.status == smoke.PASS
    assert "the same answer; 512 tokens came from the cache (simulated)" in found.sentence
    assert first["prompt"] == second["prompt"]
    assert len(first["prompt"]) > 2 * smoke.DEFAULT_CHUNK, "two whole chunks"


def test_every_smoke_sends_another_prompt_so_that_the_first_pass_is_cold() -> None:
    with serving() as vllm:
        smoke.run(lab(vllm))
        smoke.run(lab(vllm))
        assert vllm.asked[0]["prompt"] != vllm.asked[2]["prompt"]


def test_a_cache_that_gives_nothing_fails_and_one_that_nobody_counts_is_inconclusive() -> None:
    with serving() as vllm:
        vllm.hits_a_pass = 0
        failed = smoke.run(lab(vllm))
        vllm.hit_tokens = None
        unknown = smoke.run(lab(vllm))
    assert (failed.status, unknown.status) == (smoke.FAIL, smoke.INCONCLUSIVE)
    assert "nothing came from the cache" in failed.sentence
    assert "cannot be told" in unknown.sentence


def test_without_a_cache_the_same_answer_is_enough() -> None:
    with serving() as vllm:
        vllm.hit_tokens = None
        assert smoke.run(lab(vllm, "baseline")).status == smoke.PASS


def test_other_tokens_in_the_second_pass_fail() -> None:
    with serving() as vllm:
        vllm.answers = [[7, 7], [7, 8]]
        found = smoke.run(lab(vllm))
    assert found.status == smoke.FAIL
    assert "[7, 7] and [7, 8]" in found.sentence


def test_an_answer_without_tokens_fails() -> None:
    with serving() as vllm:
        vllm.answers = [[]]
        found = smoke.run(lab(vllm))
    assert found.status == smoke.FAIL
    assert "pass 1 gave no answer" in found.sentence


def test_a_server_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "lab.json"
    described = {
        "address": "127.0.0.1",
        "ports": {"vllm": 9, "lmcache_http": 9},
        "active_profile": "baseline",
    }
    file.write_text(json.dumps(described | {"profiles": {"baseline": {"mode": "none"}}}))
    done = subprocess.run(
        [sys.executable, "-m", "kvlab.serving.smoke", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == smoke.FAIL
    assert "http://127.0.0.1:9 does not answer" in done.stdout
    assert done.stderr == ""
