"""What must be the same on all hosts, for else nothing is shared and no error says so.

Topic `fleet`, from doctor.fleet: {"hosts": [name, ...], "values": {what: {host: value}}}, among them `mode`,
mp or inprocess.
"""

from __future__ import annotations

import functools
from collections import defaultdict

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

fleet = functools.partial(check, topic="fleet")


def _same(facts: TopicFacts, *settings: str) -> Verdict:
    tally = Tally()
    for what in settings:
        by_value: dict[str, list[str]] = defaultdict(list)
        for host, value in facts["values"].get(what, {}).items():
            by_value[str(value)].append(host)
        told = "; ".join(f"{value} on {_hosts(hosts)}" for value, hosts in sorted(by_value.items()))
        name = what.replace("_", " ")
        if not by_value:
            tally.unknown(f"{name} is not known of any host")
        else:
            tally.add(len(by_value) == 1, f"{name}: {told}")
    return tally.verdict()


def _hosts(hosts: list[str]) -> str:
    return ", ".join(hosts) if len(hosts) <= 3 else f"{hosts[0]} … ({len(hosts)} hosts)"


@fleet(
    "LMC141",
    "All hosts name their chunks with one hash seed",
    stage="serving",
    severity="critical",
    remedy="Set the same PYTHONHASHSEED everywhere and restart; what was stored under other names is lost "
    "to the others.",
    source="facts/kv_bench.md 0, fact 6; facts/provisioning.md 3, row 31 (LMCache#1842)",
)
def _seed(facts: TopicFacts) -> Verdict:
    return _same(facts, "hash_seed")


@fleet(
    "LMC142",
    "All hosts log the same NONE_HASH",
    stage="serving",
    severity="critical",
    remedy="Compare PYTHONHASHSEED, vLLM's version and pre_caching_hash_algorithm of the hosts that differ.",
    source="facts/provisioning.md 2.9 and 3, row 31",
)
def _none_hash(facts: TopicFacts) -> Verdict:
    modes = set(facts["values"].get("mode", {}).values())
    if modes == {"mp"} and not facts["values"].get("none_hash"):
        return Verdict("pass", ("in MP mode LMCache's server alone makes the hashes",))
    return _same(facts, "none_hash")


@fleet(
    "LMC143",
    "All hosts cut prompts into chunks of one size",
    stage="serving",
    severity="critical",
    remedy="Give the same chunk_size everywhere: the hash covers the chunk, so other sizes never meet.",
    source="facts/kv_bench.md 4.5; issue 8, drill different chunk size",
)
def _chunks(facts: TopicFacts) -> Verdict:
    return _same(facts, "chunk_size")


@fleet(
    "VLLM030",
    "All hosts serve one model, in one KV dtype, with one tensor-parallel size",
    stage="serving",
    severity="critical",
    remedy="Give vLLM the same --model text, --kv-cache-dtype and --tensor-parallel-size everywhere: all "
    "are in the key.",
    source="facts/kv_bench.md 0, fact 7",
)
def _model(facts: TopicFacts) -> Verdict:
    return _same(facts, "model", "kv_dtype", "tensor_parallel")


@fleet(
    "PY010",
    "All hosts run the same releases of vLLM, LMCache and NIXL",
    stage="host",
    severity="major",
    remedy="Install the same stack everywhere (inference_stack_name); keys and metrics change between "
    "releases.",
    source="facts/kv_bench.md 4.5 and 4.9",
)
def _releases(facts: TopicFacts) -> Verdict:
    return _same(facts, "vllm", "lmcache", "nixl")


@fleet(
    "GPU030",
    "All hosts run the same NVIDIA driver",
    stage="host",
    severity="minor",
    remedy="Bring the hosts that differ to the version in the inventory (role nvidia_driver).",
    source="facts/provisioning.md 2.2",
)
def _driver(facts: TopicFacts) -> Verdict:
    return _same(facts, "driver")


@fleet(
    "RDMA030",
    "All NICs have one firmware, and one MTU from end to end",
    stage="host",
    severity="major",
    remedy="Set the same MTU on hosts, switches and array; burn the vendor's current firmware on the NICs "
    "that differ.",
    source="facts/provisioning.md 2.6",
)
def _nics(facts: TopicFacts) -> Verdict:
    return _same(facts, "nic_firmware", "mtu")
