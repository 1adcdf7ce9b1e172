"""Is a pass what it claims to be? Turns the answers and counts of a pass into its record. Pure; no I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kvlab.checks import Finding
from kvlab.checks.path import by_body, by_rdma, is_payload, reads
from kvlab.checks.witness import TCP_SHARE
from kvlab.probes import Facts
from kvlab.ttft.result import Pass, Series, Stages, Way

COLD_CHECKS = ("KV003", "KV004", "KV006", "KV010", "PATH")
HOT_CHECKS = ("KV001", "KV002", "KV004", "KV005", "KV006", "KV010", "PATH")
PREFIX_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
_COUNTERS = ("lookup_hit_l1_tokens", "lookup_hit_l2_tokens", "l2_stored_chunks", "l2_loaded_chunks")


@dataclass(frozen=True)
class Group:
    """The requests of one pass, sent at once, with what was counted between the two readings around them.

    `answers` are probes.completion; `facts` the pass as the KV checks want it; `cpu_s` seconds of the profile's
    processes during the requests; `vllm` how far vLLM's counters moved; `chunk_bytes` those of one chunk on all ranks.
    """

    profile: str
    series: Series
    context: int
    answers: Sequence[Facts]
    facts: Facts
    cpu_s: float | None
    chunk_tokens: int
    vllm: Mapping[str, float] = field(default_factory=dict)
    chunk_bytes: int = 0

    @property
    def payload(self) -> int:
        """Bytes of all its whole chunks."""
        return self.chunks * self.chunk_bytes

    @property
    def concurrency(self) -> int:
        return len(self.answers)

    @property
    def chunks(self) -> int:
        """Whole chunks of all the prompts."""
        return self.context // self.chunk_tokens * self.concurrency

    def output_ids(self) -> list[int]:
        """The ids of all answers, one after the other."""
        return [token for answer in self.answers for token in answer["output_ids"]]

    def as_kv(self) -> Facts:
        """The pass for the KV checks, its requests taken as one with all their chunks."""
        return self.facts | {
            "prompt_tokens": self.chunks * self.chunk_tokens,
            "completion": {
                "http_status": max(int(a["http_status"] or 0) for a in self.answers) or None,
                "output_ids": self.output_ids() if all(a["output_ids"] for a in self.answers) else [],
                "error": next((a["error"] for a in self.answers if a["error"]), None),
                "finish_reason": self.answers[0]["finish_reason"]
                if all(a["finish_reason"] for a in self.answers)
                else None,
                "ttft_ms": self.answers[0]["ttft_ms"],
            },
        }


def unanswered(group: Group) -> list[str]:
    """Requests that did not come to their end."""
    return [
        f"a request was not answered: status {a['http_status']}, {a['error'] or 'no reason to stop was given'}"
        for a in group.answers
        if a["http_status"] != 200 or a["error"] or not a["output_ids"] or not a["finish_reason"]
    ]


def miscounted(group: Group) -> list[str]:
    """Requests in which vLLM counts other tokens than were sent: its answer is not to that prompt."""
    found = []
    for answer in group.answers:
        counted = (answer["usage"] or {}).get("prompt_tokens")
        if answer["http_status"] == 200 and not answer["error"] and counted != group.context:
            said = "no prompt tokens" if counted is None else f"{counted} prompt tokens"
            found.append(f"vLLM counts {said} where {group.context} were sent")
    return found


def ended(group: Group) -> str:
    """Why no pass after this one can be proven, so that the run must end; empty where one can."""
    after = group.facts["lmcache_after"]
    name = f"{group.profile}: {group.series} pass of {group.context} tokens"
    if _has_tier(group) and not (after["available"] or after.get("inside")):
        return f"{name}: LMCache's server is gone ({after['error']}); see its log under the lab's log folder."
    puts = [r for r in group.facts["access_log"] if is_payload(r) and not reads(r)]
    written = {r["key"] for r in puts if int(r["status"]) < 300}
    refused = {r["key"]: r for r in puts if int(r["status"]) >= 400 and r["key"] not in written}
    if not refused:
        return ""
    last = list(refused.values())[-1]
    return (
        f"{name}: the store refused {len(refused)} of {len(written) + len(refused)} objects (status {last['status']}, "
        f"{last['error'] or 'no reason given'}); is it full, or over its quota? Make room there."
    )


def uncached(group: Group, cold: Group | None) -> list[str]:
    """Why a pass that no cache may answer is not proven: the baseline's, and those of less than one chunk."""
    reasons = unanswered(group) + miscounted(group)
    for name in PREFIX_HITS:
        if group.vllm.get(name):
            reasons.append(f"vLLM's own prefix cache answered {group.vllm[name]:.0f} tokens")
    if hit := _hits(group):
        reasons.append(f"LMCache counts {hit} tokens as hits where none can be")
    if moved := [r for r in group.facts["access_log"] if is_payload(r)]:
        reasons.append(f"{len(moved)} objects were moved where none can be")
    if cold is not None and group.output_ids() != cold.output_ids():
        reasons.append("the output is not that of the cold pass")
    return reasons


def reasons_of(findings: Sequence[Finding]) -> list[str]:
    """What does not pass, in the findings' own words."""
    return [f"{f.id} {f.status}: {'; '.join(f.evidence)}" for f in findings if f.status != "pass"]


def record(group: Group, start: int, index: int, at_s: float, reasons: Sequence[str]) -> list[Pass]:
    """The pass as the result file keeps it: one record for each request. Counts are those of the whole group."""
    rdma, http = _moved(group)
    path = _way(group, rdma, http)
    hot = group.series == "hot"
    return [
        Pass(
            start=start,
            profile=group.profile,
            context=group.context,
            series=group.series,
            index=index,
            proven=not reasons,
            concurrency=group.concurrency,
            request=number,
            ttft_first_chunk_s=_seconds(answer["ttft_first_chunk_ms"]),
            ttft_first_token_s=_seconds(answer["ttft_ms"]),
            total_s=_seconds(answer["total_ms"]),
            finish_reason=answer["finish_reason"] or "",
            output_sha256=hashlib.sha256(json.dumps(answer["output_ids"]).encode()).hexdigest(),
            prompt_tokens=(answer["usage"] or {}).get("prompt_tokens"),
            hit_tokens=_hits(group),
            expected_hit_tokens=group.chunks * group.chunk_tokens if hot and _has_tier(group) else 0,
            tier=_tier(path),
            path=path,
            rdma_bytes=rdma if _has_tier(group) else 0,
            http_bytes=http if _has_tier(group) else 0,
            client_cpu_s=group.cpu_s,
            counters=_counters(group),
            stages=_stages(group),
            reasons=list(reasons),
            at_s=at_s,
        )
        for number, answer in enumerate(group.answers)
    ]


def _has_tier(group: Group) -> bool:
    return group.profile != "baseline"


def _seconds(milliseconds: Any) -> float | None:
    return None if milliseconds is None else float(milliseconds) / 1000


def _delta(group: Group, counter: str) -> int | None:
    after, before = group.facts["lmcache_after"], group.facts["lmcache_before"]
    value = after["counters"].get(counter)
    return None if value is None else int(value) - int(before["counters"].get(counter) or 0)


def _hits(group: Group) -> int | None:
    """Tokens that LMCache found in any of its tiers; None where it counts none."""
    if not _has_tier(group):
        return 0
    found = [_delta(group, name) for name in ("lookup_hit_l1_tokens", "lookup_hit_l2_tokens")]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _payload(group: Group) -> list[Any]:
    want = group.series == "hot"
    return [r for r in group.facts["access_log"] if is_payload(r) and reads(r) == want]


def _moved(group: Group) -> tuple[int, int]:
    """Payload bytes one-sided and in HTTP bodies: read by a hot pass, written by a cold one."""
    if nics := group.facts.get("nics"):
        return by_nics(group, nics)
    log = _payload(group)
    return sum(by_rdma(r) for r in log), sum(by_body(r) for r in log)


def by_nics(group: Group, moved: Mapping[str, int]) -> tuple[int, int]:
    """Bytes by RDMA and by TCP that the NICs moved in the direction of a pass."""
    way = "in" if group.series == "hot" else "out"
    return moved[f"rdma_{way}"], moved[f"tcp_{way}"]


def _way(group: Group, rdma: int, http: int) -> Way:
    if group.facts.get("nics"):
        # A little of everything crosses a NIC.
        noise = group.payload * TCP_SHARE
        rdma, http = (moved if moved > noise else 0 for moved in (rdma, http))
    file = group.facts["file"]
    if file and file["read" if group.series == "hot" else "written"]:
        return "unknown" if rdma or http else "file"
    if rdma and http:
        return "unknown"
    return "rdma" if rdma else "http" if http else "none"


def _tier(path: Way) -> str:
    return {"rdma": "store", "http": "store", "file": "folder", "none": ""}.get(path, "unknown")


def _counters(group: Group) -> dict[str, float]:
    found = {name: _delta(group, name) for name in _COUNTERS if _has_tier(group)}
    return {name: float(value) for name, value in found.items() if value is not None}


def _stages(group: Group) -> Stages:
    """What vLLM and the store's log count, for one request on average.

    vLLM's lookup is its wait for LMCache, which meanwhile reads from the store: what the log shows of that is
    `retrieve`, the rest `lookup`. `copy` follows it: vLLM lets a request queue until its chunks have come from
    LMCache's memory into its own cache, so it is what is left of the queue's time. With several at once that would
    hold the wait for each other too, and is not counted. `prefill` is from being scheduled to the first token.
    """
    moving = _span(_payload(group)) if _has_tier(group) else None
    waited = _counted(group, "vllm:lmcache_mp_lookup_duration_seconds")
    queued = _counted(group, "vllm:request_queue_time_seconds")
    hot = group.series == "hot"
    copies = hot and group.concurrency == 1 and bool(_hits(group)) and None not in (waited, queued)
    return Stages(
        lookup=None if waited is None else max(waited - ((moving or 0.0) if hot else 0.0), 0.0),
        retrieve=moving if hot else None,
        copy=max((queued or 0.0) - (waited or 0.0), 0.0) if copies else None,
        prefill=_counted(group, "vllm:request_prefill_time_seconds"),
        store=None if hot else moving,
    )


def _counted(group: Group, histogram: str) -> float | None:
    """Mean of a histogram of vLLM's over the requests of a pass; None where it did not count each of them once."""
    if round(group.vllm.get(f"{histogram}_count", 0.0)) != group.concurrency:
        return None
    return max(group.vllm.get(f"{histogram}_sum", 0.0), 0.0) / group.concurrency


def _span(log: Sequence[Any]) -> float | None:
    """Seconds from the first request of a log to the end of the last."""
    if not log:
        return None
    begins = [datetime.fromisoformat(str(r["time"])).timestamp() for r in log]
    ends = [b + float(r["duration_ms"]) / 1000 for b, r in zip(begins, log, strict=True)]
    return max(ends) - min(begins)
