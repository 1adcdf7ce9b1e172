"""Send one prompt twice through the profile that serves: `python -m kvlab.serving.smoke [LAB_JSON]`.

The prompt is new, so the first pass is cold; the second must give the same token ids, and where the profile has a
cache, take chunks from it. Exit status 0: so it was. 1: it was not. 2: it could not be told, which is no pass. The
suite proves much more (path, bytes, TTFT); this is what an upgrade asks of each host before it goes to the next one.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kvlab.errors import KvlabError
from kvlab.probes import completion, lmcache_mp
from kvlab.probes.host import vllm
from kvlab.serving import lab as labs
from kvlab.serving.lab import Lab

PASS, FAIL, INCONCLUSIVE = 0, 1, 2
CHUNKS = 2
DEFAULT_CHUNK = 256  # LMCache's own, for a profile without a cache
MAX_TOKENS = 8


class Verdict(NamedTuple):
    """The exit status, and the sentence."""

    status: int
    sentence: str


def judge(name: str, *, cached: bool, passes: list[dict[str, Any]], hit_tokens: int | None) -> Verdict:
    """The verdict on two passes of one prompt; `hit_tokens` came from the cache, None where nobody counted."""
    for number, one in enumerate(passes, 1):
        if one["error"] or one["http_status"] != 200 or not one["output_ids"]:
            reason = one["error"] or f"status {one['http_status']}, {len(one['output_ids'])} tokens"
            return Verdict(FAIL, f"profile {name}: pass {number} gave no answer: {reason}")
    first, second = (one["output_ids"] for one in passes)
    if first != second:
        return Verdict(FAIL, f"profile {name}: the second pass gave other tokens: {first} and {second}")
    said = f"profile {name}: {passes[0]['prompt_tokens']} tokens twice, the same answer"
    if not cached:
        return Verdict(PASS, said)
    if hit_tokens is None:
        return Verdict(
            INCONCLUSIVE, f"{said}; whether the cache was hit cannot be told, for nobody counted it"
        )
    if hit_tokens <= 0:
        return Verdict(FAIL, f"{said}, but nothing came from the cache")
    return Verdict(PASS, f"{said}; {hit_tokens} tokens came from the cache")


class Addresses(NamedTuple):
    """Where a lab's vLLM and its counts are asked; `lmcache` is empty where no server of LMCache is known."""

    vllm: str
    metrics: str
    lmcache: str


def addresses(data: Any, mode: str) -> Addresses:
    """The addresses that the lab's description names, or those of its ports."""
    if data.get("serving_mode") == "external":
        url = data["vllm_url"].rstrip("/")
        return Addresses(url, data.get("metrics_url") or f"{url}/metrics", data.get("lmcache_url") or "")
    base, ports = f"http://{data['address']}", data["ports"]
    url = f"{base}:{ports['vllm']}"
    return Addresses(url, f"{url}/metrics", f"{base}:{ports['lmcache_http']}" if mode == "mp" else "")


def hits(where: Addresses) -> int | None:
    """Tokens that the cache has given so far, by LMCache's server or, where it runs inside, by vLLM."""
    if where.lmcache:
        counted = lmcache_mp.settle(where.lmcache)["counters"]
        # A counter that has counted nothing is left out of the metrics.
        return None if not counted else int(counted["lookup_hit_tokens"] or 0)
    try:
        samples = lmcache_mp.parse(vllm.get(where.metrics))
    except OSError:
        return None
    found = vllm.counts(samples)["external_hits"]
    return None if found is None else int(found)


def run(lab: Lab) -> Verdict:
    """Both passes. Raises KvlabError where vLLM cannot be reached."""
    data, name = lab.data, lab.configured_profile
    profile = lab.profiles.get(name, {})
    mode = str(profile.get("mode") or ("none" if name == "baseline" else "unknown"))
    where = addresses(data, mode)
    tokens = CHUNKS * int(profile.get("chunk_size") or DEFAULT_CHUNK) + 1
    job = {
        "url": where.vllm,
        "prompt_ids": random.SystemRandom().choices(range(32, 127), k=tokens),
        "max_tokens": MAX_TOKENS,
        "simulated": data.get("simulated"),
    }
    first = completion.run(job)
    before = None if mode == "none" else hits(where)
    second = completion.run(job)
    after = None if mode == "none" else hits(where)
    gained = None if before is None or after is None else after - before
    verdict = judge(name, cached=mode != "none", passes=[first, second], hit_tokens=gained)
    label = " (simulated)" if data.get("simulated") else ""
    return Verdict(verdict.status, verdict.sentence + label)


if __name__ == "__main__":
    try:
        found = run(labs.load(Path(sys.argv[1]) if sys.argv[1:] else None))
    except KvlabError as problem:
        found = Verdict(FAIL, str(problem))
    print(found.sentence)
    sys.exit(found.status)
