"""Synthetic results for tests: the numbers are drawn from a seed, nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kvlab.ttft.result import Pass, Result, Stages, Start

ENVIRONMENT: dict[str, Any] = {
    "hardware.cpu": "Example CPU",
    "versions.vllm": "0.32.0",
    "versions.lmcache": "0.5.6",
    "driver.nvidia": "none",
    "workload.tp": 1,
    "about.host": "example",
}
CONTEXTS = (64, 256, 1024, 4096, 8192)
PROFILES = ("baseline", "s3-http", "s3-rdma")
BYTES_PER_TOKEN = 2048


def ttft(profile: str, context: int) -> float:
    """Seconds: quadratic for the baseline, a constant and a slope for the cached profiles."""
    if profile == "baseline":
        return 0.004 + 2e-5 * context + 4e-9 * context**2
    return 0.012 + (4e-6 if profile == "s3-rdma" else 9e-6) * context


def result(
    *,
    starts: int = 5,
    hot: int = 5,
    profiles: Sequence[str] = PROFILES,
    contexts: Sequence[int] = CONTEXTS,
    concurrency: int = 1,
    seed: int = 1,
    start_sd: float = 0.03,
    pass_sd: float = 0.03,
    slower: Mapping[str, float] | None = None,
    stage: str = "retrieve",
    **fields: Any,
) -> Result:
    """A complete run; `slower` maps profiles to the factor of their TTFT, all of it in `stage`."""
    draw = np.random.default_rng(seed)
    found = Result(
        id=fields.pop("id", f"run-{seed}"),
        created=fields.pop("created", "2026-12-01T00:00:00Z"),
        simulated=fields.pop("simulated", True),
        environment=dict(fields.pop("environment", ENVIRONMENT)),
        complete=True,
        **fields,
    )
    for index in range(starts):
        for profile in profiles:
            start = Start(number=len(found.starts), profile=profile, index=index, at=found.created)
            found.starts.append(start)
            common = draw.normal(0, start_sd)
            for context in contexts:
                for at in range(hot + 1):
                    series = "cold" if at == 0 else "hot"
                    base = ttft("baseline" if series == "cold" else profile, context)
                    lasting = base * float(np.exp(common + draw.normal(0, pass_sd)))
                    extra = lasting * ((slower or {}).get(profile, 1.0) - 1)
                    for request in range(concurrency):
                        found.passes.append(
                            one_pass(
                                start,
                                context,
                                series,
                                max(at - 1, 0),
                                lasting,
                                extra,
                                stage,
                                request,
                                concurrency,
                            )
                        )
    return found


def one_pass(
    start: Start,
    context: int,
    series: Any,
    index: int,
    base: float,
    extra: float,
    stage: str,
    request: int,
    concurrency: int,
) -> Pass:
    """A proven pass that took `base + extra` seconds."""
    cached = start.profile != "baseline" and series == "hot"
    hit = (context - 1) // 64 * 64 if cached else 0
    payload = hit * BYTES_PER_TOKEN
    stages = {"lookup": 0.1 * base, "retrieve": 0.5 * base, "copy": 0.1 * base, "prefill": 0.3 * base}
    stages[stage] += extra
    if not cached:
        stages = {"prefill": base + extra}
    rdma = start.profile == "s3-rdma"
    return Pass(
        start=start.number,
        profile=start.profile,
        context=context,
        series=series,
        index=index,
        concurrency=concurrency,
        request=request,
        ttft_first_chunk_s=base + extra,
        ttft_first_token_s=base + extra,
        total_s=base + extra + 0.01,
        finish_reason="length",
        output_sha256="0" * 64,
        prompt_tokens=context,
        hit_tokens=hit,
        expected_hit_tokens=hit,
        tier="object" if cached else "",
        path=("rdma" if rdma else "http") if cached else "none",
        rdma_bytes=payload if rdma else 0,
        http_bytes=0 if rdma else payload,
        client_cpu_s=(0.002 if rdma else 0.002 + 4e-9 * payload) if cached else base,
        stages=Stages(**stages),
        proven=True,
    )
