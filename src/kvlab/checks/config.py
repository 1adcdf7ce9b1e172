"""The configuration that a profile runs with, as `kvlab lint` sees it: each check gathers the rules about one trap.

Topic `config`: {"profile", "files": [name, ...], "findings": [{"id": the linter's, "severity", "key", "reason",
"file"}], "sizes_known": whether bytes per token and the longest request were, "endpoint": what the inventory says or
null, "resolved_endpoint": what NIXL is given or null} The ids LMC1xx are the doctor's; LMC0xx, NIX, CUF, MPS, VLM and
ENV are the linter's rules (docs/kv-lint.md).
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

config = functools.partial(check, stage="serving", topic="config", severity="critical")


def _rules(facts: TopicFacts, ids: tuple[str, ...], clean: str) -> Verdict:
    """Fail on each finding of these rules; notes do not count."""
    tally = Tally()
    if not facts["files"]:
        tally.unknown("no configuration file was read")
        return tally.verdict()
    for one in facts["findings"]:
        if one["id"] in ids and one["severity"] != "note":
            tally.fail(f"{one['file']} ({one['id']}) {one['key']}: {one['reason']}")
    if not tally.failed:
        tally.ok(f"{clean} ({', '.join(facts['files'])})")
    return tally.verdict()


def _sizes(facts: TopicFacts, ids: tuple[str, ...], clean: str) -> Verdict:
    """The same for rules that are silent where the bytes of a token are not known."""
    found = _rules(facts, ids, clean)
    if found.status == "pass" and not facts["sizes_known"]:
        return Verdict(
            "inconclusive", ("profile.json says nothing of the model; run the role kv_profiles again",)
        )
    return found


@config(
    "LMC101",
    "The configuration is one that LMCache starts with",
    remedy="kvlab lint FILE says line and remedy; the source document's own YAML lacks nixl_pool_size.",
    source="facts/kv_bench.md 0, fact 1",
)
def _starts(facts: TopicFacts) -> Verdict:
    ids = (
        "LMC002",
        "LMC003",
        "LMC009",
        "LMC010",
        "LMC014",
        "LMC020",
        "LMC022",
        "LMC026",
        "LMC027",
        "LMC028",
        "MPS009",
    )
    return _rules(facts, ids, "nothing that stops LMCache")


@config(
    "LMC102",
    "Every key is one that the installed LMCache reads",
    remedy="Correct or remove the key: LMCache goes on without it, at most with a line in its log.",
    source="facts/provisioning.md 3, row 32 (LMCache#1449)",
)
def _known_keys(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC005", "LMC007", "LMC008", "ENV004", "VLM010", "MPS001"), "all keys are known")


@config(
    "LMC103",
    "The dynamic pool goes with the rest of the configuration",
    remedy="Write save_unfull_chunk: false with nixl_pool_size: 0.",
    source="facts/provisioning.md 2.9 and 3, row 33 (LMCache PR#2024)",
)
def _dynamic(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC015", "LMC016", "LMC018", "LMC019"), "the pool is possible")


@config(
    "LMC104",
    "There is room in host memory for what is being stored",
    remedy="Give max_local_cpu_size a few GiB, also with local_cpu: false; every store is staged there.",
    source="facts/provisioning.md 3, row 34 (LMCache#4743); facts/kv_bench.md 0, fact 11",
)
def _staging(facts: TopicFacts) -> Verdict:
    return _sizes(facts, ("LMC033", "LMC034", "VLM009"), "one engine step fits")


@config(
    "LMC105",
    "Layerwise loading is not combined with GDS_MT",
    remedy="Switch one of the two off.",
    source="facts/provisioning.md 3, row 35 (LMCache#3559)",
)
def _layerwise(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC013", "LMC043"), "no such pair")


@config(
    "LMC106",
    "NIXL's back end is one that exists",
    remedy="Write one of the back ends that the linter names (OBJ for objects).",
    source="facts/provisioning.md 3, row 37 (LMCache PR#4740)",
)
def _backend(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC011", "MPS007", "MPS012", "MPS013", "MPS014"), "the back end is known")


@config(
    "LMC107",
    "One chunk is one object",
    remedy="Write file_size and --l1-align-bytes as kvlab size gives them; the default cuts chunks to 4 KiB.",
    source="facts/provisioning.md 3, row 36 (ROCm/rocm-aic PR#86); facts/local_stack.md",
)
def _whole_chunks(facts: TopicFacts) -> Verdict:
    return _sizes(facts, ("MPS005", "MPS011", "MPS015", "LMC030"), "objects are whole chunks")


@config(
    "LMC108",
    "No DRAM tier answers in place of the one under test",
    remedy="Write local_cpu: false (in process) or --l2-store-policy skip_l1 (MP mode).",
    source="facts/kv_bench.md 0, fact 4",
)
def _dram(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC032", "MPS003", "MPS004"), "chunks are read from the tier")


@config(
    "LMC109",
    "The longest request fits into the transfer buffer",
    remedy="Enlarge the buffer to what the linter says, or lower --max-model-len: reads are all or nothing.",
    source="facts/kv_bench.md 0, fact 9",
)
def _fits(facts: TopicFacts) -> Verdict:
    return _sizes(facts, ("LMC029", "MPS006", "MPS010"), "the longest request fits")


@config(
    "LMC110",
    "Buffers in host memory can be pinned in one piece",
    severity="major",
    remedy="Keep max_local_cpu_size below 512 GiB.",
    source="facts/provisioning.md 3, row 42 (vllm#51080)",
)
def _pinned(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC058",), "below 512 GiB")


@config(
    "LMC111",
    "The pool's keys can be found by other processes and after a restart",
    severity="major",
    remedy="Write nixl_pool_size: 0 for shared keys; with a static pool begin each start with an empty "
    "bucket.",
    source="facts/provisioning.md 2.9; facts/kv_bench.md 0, facts 6 and 7",
)
def _shared_keys(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC017", "ENV002", "VLM008", "LMC057"), "keys are the same everywhere")


@config(
    "LMC112",
    "vLLM and LMCache have no known defect together that damages KV",
    remedy="Use stack dell-fixed in process, or MP mode with current-cpu's versions; discard what was "
    "written before.",
    source="facts/kv_bench.md 0, fact 13 (LMCache #4463, PR #4391)",
)
def _defects(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("STK001", "STK002", "STK003", "STK004", "STK005"), "no such pair of versions")


@config(
    "LMC113",
    "LMCache has a handler for the way in which vLLM's engine transfers",
    remedy="Write --supported-transfer-mode auto: on a CPU the engine drives the transfer, LMCache's default has no "
    "handler for that, and the cache is silently off.",
    source="facts/local_stack.md; issue 8, drill wrong transfer mode",
)
def _transfer_mode(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("MPS002",), "the transfer mode is the engine's")


@config(
    "NIXL014",
    "Every parameter given to NIXL is one that it reads, as text",
    remedy="Correct the name, and put values in quotes: NIXL ignores what it does not know without a word.",
    source="facts/provisioning.md 2.8b and 3, row 49",
)
def _parameters(facts: TopicFacts) -> Verdict:
    return _rules(
        facts, ("NIX001", "NIX002", "NIX003", "NIX004", "NIX006", "NIX007", "NIX022"), "all are known"
    )


@config(
    "NIXL015",
    "NIXL goes to the lab's endpoint, not to Amazon's",
    remedy="Write endpoint_override and scheme; without them the SDK takes its default.",
    source="facts/provisioning.md 3, row 49",
)
def _endpoint(facts: TopicFacts) -> Verdict:
    found = _rules(
        facts, ("NIX010", "NIX012", "NIX013", "NIX014", "NIX015", "NIX016"), "an endpoint is named"
    )
    wanted, given = facts["endpoint"], facts["resolved_endpoint"]
    if found.status == "pass" and wanted and given != wanted:
        return Verdict("fail", (f"NIXL is given {given or 'no endpoint'}, the inventory says {wanted}",))
    return found


@config(
    "NIXL016",
    "GPU buffers are asked of an engine that takes them",
    remedy="Write nixl_buffer_device: cpu, or switch on the accelerated engine: plain S3 engines take "
    "host memory only.",
    source="facts/provisioning.md 2.8",
)
def _device(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("LMC021", "LMC023", "LMC024", "LMC025"), "buffer and engine go together")


@config(
    "NIXL017",
    "No checksums are asked for that an RDMA reply cannot carry",
    severity="major",
    remedy="Write req_checksum and resp_checksum as required, and AWS_…_CHECKSUM_…=when_required in the "
    "environment.",
    source="facts/provisioning.md 2.8 and 3, row 39 (ai-dynamo/nixl#1285)",
)
def _checksums(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("NIX008", "NIX009", "ENV005"), "checksums where required only")


@config(
    "VLLM001",
    "vLLM's own prefix cache does not answer in place of the tier",
    remedy="Add --no-enable-prefix-caching, or reset the cache before each pass and verify the loaded "
    "tokens.",
    source="facts/kv_bench.md 0, fact 5; facts/provisioning.md 3, row 38 (LMCache#1109)",
)
def _prefix_cache(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("VLM001",), "the prefix cache is off")


@config(
    "VLLM002",
    "vLLM is given the connector of the profile, for storing and loading",
    remedy="Correct --kv-transfer-config (LMCacheMPConnector or LMCacheConnectorV1, kv_role kv_both).",
    source="facts/kv_bench.md 4.6",
)
def _connector(facts: TopicFacts) -> Verdict:
    ids = ("VLM002", "VLM003", "VLM004", "VLM005", "VLM006", "ENV010", "ENV012")
    return _rules(facts, ids, "the connector is the profile's")


@config(
    "VLLM003",
    "A load that fails is seen",
    severity="major",
    remedy="Leave kv_load_failure_policy at fail: recompute hides failed loads, and may give wrong output.",
    source="facts/kv_bench.md 0, fact 9",
)
def _failure_policy(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("VLM007",), "failed loads fail their request")


@config(
    "VLLM004",
    "vLLM's memory is of a kind that can be registered with the NIC",
    remedy="Remove expandable_segments from PYTORCH_CUDA_ALLOC_CONF and --enable-sleep-mode.",
    source="facts/provisioning.md 2.5 and 3, row 43 (vllm PR#29569)",
)
def _allocator(facts: TopicFacts) -> Verdict:
    return _rules(facts, ("ENV006", "VLM011"), "no mapped allocations")


@config(
    "S3001",
    "Credentials are given whole, and not where others can read them",
    remedy="Give both keys by a 0600 environment file, never on a command line or in a file that others "
    "may read.",
    source="design.md, Decisions (secrets); facts/kv_bench.md 4",
)
def _credentials(facts: TopicFacts) -> Verdict:
    ids = ("NIX017", "NIX018", "NIX019", "NIX020", "NIX021", "ENV011", "ENV013", "MPS008")
    return _rules(facts, ids, "both keys, and private")
