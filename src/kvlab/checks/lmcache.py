"""LMCache and vLLM as they run: health, counters, logs, limits.

Topic `lmcache`, from probes.lmcache_mp: {"available", "error", "version", "known_version": bool, "healthy",
"engines", "counters": {name: count or null}, "failed": {counter: count}, "storing"}
Topic `lmcache_log`, from probes.host.logs: {"file", "seen": {pattern's name: {"count", "last"}}, "none_hash" or null}
Topic `vllm`: {"available", "error", "status": HTTP status of /health or null, "model", "max_model_len", "running",
"waiting", "finished", "generated": tokens, "request": {"status": HTTP status of a request for one token or null,
"error": or null}, "seconds": what it took, "later": the same counts after it or null, "connector": bool,
"external_queries": or null}
Topic `processes`: see checks.gds.
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

lmcache = functools.partial(check, stage="serving", topic="lmcache", severity="critical")
log = functools.partial(check, stage="serving", topic="lmcache_log", severity="critical")
vllm = functools.partial(check, stage="serving", topic="vllm", severity="critical")
processes = functools.partial(check, stage="serving", topic="processes", severity="critical")

NOFILE = 65536
GIB = 1 << 30


@lmcache(
    "LMC120",
    "LMCache answers and is healthy, not in degraded mode",
    remedy="See its log for what failed after the start: in degraded mode vLLM serves normally, without "
    "any cache.",
    source="facts/kv_bench.md 0, fact 3",
)
def _healthy(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.fail(f"LMCache does not answer: {facts['error']}")
    else:
        tally.add(bool(facts["healthy"]), f"LMCache {facts['version']}: healthy is {facts['healthy']}")
    return tally.verdict()


@lmcache(
    "LMC121",
    "LMCache's metric names are of a version that kvlab knows",
    severity="major",
    remedy="Add the version's names to kvlab.probes.lmcache_mp.COUNTERS; until then its counters are no "
    "evidence.",
    source="facts/kv_bench.md 4.9; issue 8, bad input",
)
def _known(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"LMCache does not answer: {facts['error']}")
    elif not facts["known_version"]:
        tally.unknown(f"the metric names of LMCache {facts['version']} are not known")
    else:
        tally.ok(f"LMCache {facts['version']}: {len(facts['counters'])} counters by name")
    return tally.verdict()


@lmcache(
    "LMC122",
    "An engine is registered with LMCache",
    remedy="Start vLLM again while LMCache runs: without a registration the cache is off and no error "
    "says so.",
    source="LMCache 0.5.6, vllm_multi_process_adapter.py; facts/local_stack.md",
)
def _registered(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"LMCache does not answer: {facts['error']}")
    else:
        tally.add(facts["engines"] > 0, f"{facts['engines']} engine(s) registered")
    return tally.verdict()


@lmcache(
    "LMC123",
    "No put and no get of LMCache failed",
    remedy="See LMCache's log and the store's: a failed get is counted as a miss, a failed put can stay a "
    "miss for good.",
    source="facts/provisioning.md 2.9; facts/kv_bench.md 4.9",
)
def _failed_transfers(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"LMCache does not answer: {facts['error']}")
    for name, count in facts["failed"].items():
        tally.add(count == 0, f"{name}: {count:g}")
    if facts["available"] and not facts["failed"]:
        tally.ok("it counts no failure")
    return tally.verdict()


def _never(facts: TopicFacts, *patterns: str) -> Verdict:
    """Fail on each pattern that was seen in the log."""
    tally = Tally()
    for name in patterns:
        seen = facts["seen"][name]
        line = f"{facts['file']}: {seen['count']} line(s) like {seen['last']!r}"
        tally.add(
            seen["count"] == 0, line if seen["count"] else f"{facts['file']}: no {name.replace('_', ' ')}"
        )
    return tally.verdict()


@log(
    "LMC130",
    "LMCache stored whole requests, not what happened to fit",
    remedy="Enlarge max_local_cpu_size and the NIXL buffer, or the pool of slots; requests succeed all "
    "the same.",
    source="facts/kv_bench.md 0, fact 11; facts/local_stack.md",
)
def _truncated(facts: TopicFacts) -> Verdict:
    return _never(facts, "storing_only", "storage_full")


@log(
    "LMC131",
    "LMCache knows the transfer mode that vLLM asks for",
    remedy="Start the server with --supported-transfer-mode auto; without a handler the cache is silently "
    "off.",
    source="facts/local_stack.md",
)
def _handler(facts: TopicFacts) -> Verdict:
    return _never(facts, "no_handler")


@log(
    "LMC132",
    "LMCache did not go to degraded mode",
    remedy="Mend what the lines before it name (plugin, bucket, GPU memory), and start again.",
    source="facts/kv_bench.md 0, fact 3; 4.3",
)
def _degraded(facts: TopicFacts) -> Verdict:
    return _never(facts, "degraded")


@log(
    "NIXL018",
    "The accelerated engine connected",
    remedy="Check rdma_dev_addr_list and the library: the back end is made all the same and fails when "
    "memory is registered.",
    source="facts/provisioning.md 2.8b and 3, row 48",
)
def _connected(facts: TopicFacts) -> Verdict:
    return _never(facts, "cuobject_not_connected")


@log(
    "NIXL019",
    "NIXL refused no back end and no registration",
    remedy="The line says which parameter or memory; NIXL gives its reason on stderr only.",
    source="facts/provisioning.md 2.8b: type=nosuch, empty bucket",
)
def _refusals(facts: TopicFacts) -> Verdict:
    return _never(facts, "nixl_error")


@vllm(
    "VLLM010",
    "vLLM answers",
    remedy="See its log (kvlab: .lab/log/vllm-<profile>.log), then start it again (./lab up).",
    source="issue 8, drill a killed engine",
)
def _answers(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.fail(f"vLLM does not answer: {facts['error']}")
    else:
        tally.add(facts["status"] == 200, f"/health says {facts['status']}, model {facts['model']}")
    return tally.verdict()


@vllm(
    "VLLM011",
    "Requests move on",
    remedy="Stop the engine by its process group and start it again; take py-spy's or gdb's stack first.",
    source="issue 8, drill a hung engine",
)
def _moves(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"vLLM does not answer: {facts['error']}")
        return tally.verdict()
    status, later = facts["request"]["status"], facts["later"]
    busy = f"{facts['running']:g} running, {facts['waiting']:g} waiting"
    if status == 200:
        tally.ok(f"one token took {facts['seconds']:g} s; {busy}")
    elif status is None and later is None:
        tally.unknown(
            f"no answer in {facts['seconds']:g} s ({facts['request']['error']}), and no metrics after it"
        )
    elif status is None:
        # A queue may be longer than a probe's patience; an engine that hangs makes nothing.
        moved = any(later[name] > facts[name] for name in ("finished", "generated"))
        told = "others were served" if moved else "nothing moved meanwhile: the engine hangs"
        tally.add(moved, f"no token in {facts['seconds']:g} s ({facts['request']['error']}), {told}; {busy}")
    elif status >= 500:
        tally.fail(f"a request for one token was answered {status} ({facts['request']['error']}); {busy}")
    else:
        tally.unknown(f"vLLM refused the request for one token: {facts['request']['error']}")
    return tally.verdict()


@vllm(
    "VLLM012",
    "vLLM asks its connector: external cache queries are counted",
    severity="major",
    remedy="Give --kv-transfer-config, and see vLLM's log for the connector's name at its start.",
    source="facts/kv_bench.md 4.9",
)
def _asks(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["connector"]:
        tally.ok("the profile has no connector")
    elif facts["external_queries"] is None:
        tally.fail("vLLM has no metric external_prefix_cache_queries, so it was given no connector")
    else:
        queries, done = facts["external_queries"], facts["finished"]
        tally.add(queries > 0 or done == 0, f"{queries:g} tokens asked for, {done:g} requests finished")
    return tally.verdict()


@processes(
    "VLLM020",
    "Every program of the profile runs",
    remedy="Start it again (./lab up; systemctl start); its log says why it ended.",
    source="issue 8, drill a killed engine",
)
def _running(facts: TopicFacts) -> Verdict:
    tally = Tally()
    roles = [process["role"] for process in facts["processes"]]
    for role in facts["expected"]:
        tally.add(role in roles, f"{role}: {roles.count(role)} process(es)")
    return tally.verdict()


@processes(
    "VLLM021",
    "The running processes may lock as much memory as they register",
    remedy="Write LimitMEMLOCK=infinity into the unit (limits.d does not reach services), --ulimit "
    "memlock=-1 for containers.",
    source="facts/provisioning.md 2.6 and 3, row 22 (openucx/ucx#8229)",
)
def _memlock(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for process in facts["processes"]:
        limit, need = process["limits"]["memlock"], process.get("registers", 0)
        told = "unlimited" if limit is None else f"{limit:,} bytes"
        line = f"{process['role']} ({process['pid']}): memlock {told}, registers {need:,} bytes"
        tally.add(limit is None or limit >= need > 0 or need == 0, line)
    return tally.verdict()


@processes(
    "VLLM022",
    "The running processes may open files and connections enough",
    severity="major",
    remedy="Write LimitNOFILE=65536 (or more) into the unit.",
    source="facts/provisioning.md 2.6 and after 3",
)
def _nofile(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for process in facts["processes"]:
        limit, need = process["limits"]["nofile"], facts.get("nofile_needed", NOFILE)
        line = f"{process['role']} ({process['pid']}): nofile {limit or 'unlimited'}, {need} wanted"
        tally.add(limit is None or limit >= need, line)
    return tally.verdict()


@processes(
    "LMC140",
    "Every serving process has a fixed PYTHONHASHSEED",
    remedy="Write PYTHONHASHSEED=0 into the environment of every process on every host; otherwise keys "
    "differ.",
    source="facts/kv_bench.md 0, fact 6; facts/provisioning.md 3, row 31 (LMCache#1139)",
)
def _seed(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for process in facts["processes"]:
        seed = process["environment"].get("PYTHONHASHSEED")
        line = f"{process['role']} ({process['pid']}): PYTHONHASHSEED is {seed or 'not set'}"
        tally.add(bool(seed) and str(seed).isdigit(), line)
    return tally.verdict()
