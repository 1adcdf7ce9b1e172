"""The object store: does it answer, does it take what is sent, is there room, is it fast on every endpoint.

Topic `s3`: {"endpoint", "error": null or sentence, "skew_s": store's clock against ours or null, "endpoints":
[{"endpoint", "error": null or sentence, "ms": median of a signed request}], "smoke": [{"mode", "works", "failed"}],
"bucket": {"name", "objects", "bytes", "quota_bytes": or null, "sizes": {bytes: count}, "chunk_bytes", "foreign":
count}, "lists": bool}
Topic `objectscale`: {"available", "error", "version", "verified": certificate checked, "namespace": bool, "user":
bool, "buckets": {name: bool}, "rdma": "ready"|"declined"|"not offered"|"unclear"|null, "rdma_wanted": bool}
"""

from __future__ import annotations

import functools
import statistics

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release

s3 = functools.partial(check, stage="serving", topic="s3", severity="critical")
osc = functools.partial(check, stage="serving", topic="objectscale", severity="critical")

SKEW_S = 300.0
"""S3 refuses at 900 s; a third of it is no accident."""

FULL = 0.8
FULL_WORDS = ("InsufficientStorage", "QuotaExceeded")
"""What stores answer when no byte more goes in; a quota that is not the bucket's is seen by nothing else."""

SLOW = 3.0
MEASURABLE_MS = 20.0
"""Below, the scheduler of a small machine makes factors of three by itself."""


@s3(
    "S3002",
    "The object store answers a signed request",
    remedy="Check address, port and route first, then the key pair: a refused signature is named InvalidAccessKeyId or "
    "SignatureDoesNotMatch.",
    source="facts/objectscale.md 4; issue 8, drill revoked key",
)
def _answers(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(facts["error"] is None, facts["error"] or f"{facts['endpoint']} answers")
    return tally.verdict()


@s3(
    "S3003",
    "The store's clock agrees with the client's",
    remedy="Set the clocks by one time server; a signature 15 minutes off is refused (RequestTimeTooSkewed).",
    source="facts/objectscale.md 4; issue 8, drill clock skew",
)
def _skew(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["skew_s"] is None:
        tally.unknown("the store gave no date")
    else:
        tally.add(abs(facts["skew_s"]) < SKEW_S, f"the store's clock is {facts['skew_s']:+.0f} s off")
    return tally.verdict()


@s3(
    "S3004",
    "The store takes objects with checksums where required, and refuses none where supported",
    remedy="Set AWS_REQUEST_CHECKSUM_CALCULATION and …RESPONSE_CHECKSUM_VALIDATION to when_required for "
    "every client.",
    source="facts/provisioning.md 3, row 39 (boto/boto3#4392)",
)
def _checksums(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["smoke"]:
        line = f"{one['mode']}: {'works' if one['works'] else one['failed']}"
        # With when_supported a refusal is a property of the store; the lab's clients do not use that mode.
        tally.add(one["works"] or one["mode"] == "when_supported", line)
    return tally.verdict()


@s3(
    "S3005",
    "Every endpoint answers",
    remedy="Take the endpoint out of the list until its node is back: a rank that is given it serves "
    "without a cache.",
    source="issue 8, drill one of several endpoints down; facts/provisioning.md 2.8b: closed port",
)
def _endpoints(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["endpoints"]:
        tally.add(one["error"] is None, f"{one['endpoint']}: {one['error'] or 'answers'}")
    return tally.verdict()


@s3(
    "S3006",
    "No endpoint is much slower than the others",
    severity="major",
    remedy="Look at that node's load and NIC; with one endpoint compare with what was accepted (kvlab "
    "drift).",
    source="issue 8, drill endpoint slow by 3x",
)
def _even(facts: TopicFacts) -> Verdict:
    tally = Tally()
    times = {one["endpoint"]: one["ms"] for one in facts["endpoints"] if one["ms"] is not None}
    if not times:
        tally.unknown("no endpoint was timed")
        return tally.verdict()
    usual = statistics.median(
        [*times.values(), facts["usual_ms"]] if facts.get("usual_ms") else times.values()
    )
    for endpoint, ms in times.items():
        line = f"{endpoint}: {ms:.1f} ms, usual {usual:.1f} ms"
        tally.add(ms < max(usual * SLOW, MEASURABLE_MS), line)
    return tally.verdict()


@s3(
    "S3007",
    "The bucket has room",
    severity="major",
    remedy="Empty it (kvlab bucket clean): nothing in LMCache deletes what NIXL stored; or raise the quota.",
    source="facts/kv_bench.md 0, fact 12; issue 8, drill store full",
)
def _room(facts: TopicFacts) -> Verdict:
    tally, bucket = Tally(), facts["bucket"]
    line = f"{bucket['name']}: {bucket['objects']} objects, {bucket['bytes']:,} bytes"
    for one in facts.get("smoke", ()):
        if not one["works"] and any(word in one["failed"] for word in FULL_WORDS):
            tally.fail(f"a write was refused for want of room: {one['failed']}")
    if "quota_bytes" not in bucket:
        tally.unknown(f"{line}; its quota is not known, for no management API was asked")
    elif bucket["quota_bytes"] is None:
        tally.ok(f"{line}, no quota")
    else:
        tally.add(bucket["bytes"] < bucket["quota_bytes"] * FULL, f"{line} of {bucket['quota_bytes']:,}")
    return tally.verdict()


@s3(
    "S3008",
    "Stored objects have the size of one chunk",
    remedy="Empty objects are declined PUTs; 4 KiB ones a missing file_size; others another model's or "
    "dtype's.",
    source="facts/provisioning.md 3, row 36 (ROCm/rocm-aic PR#86); facts/kv_bench.md 0, fact 8",
)
def _sizes(facts: TopicFacts) -> Verdict:
    tally, bucket = Tally(), facts["bucket"]
    if bucket["chunk_bytes"] is None:
        tally.unknown("the bytes of a chunk are not known")
        return tally.verdict()
    for size, count in bucket["sizes"].items():
        line = (
            f"{bucket['name']}: {count} objects of {int(size):,} bytes, a chunk has {bucket['chunk_bytes']:,}"
        )
        tally.add(int(size) == bucket["chunk_bytes"], line)
    if not bucket["sizes"]:
        tally.ok(f"{bucket['name']} is empty")
    return tally.verdict()


@s3(
    "S3009",
    "Nothing but KV objects lies in the bucket",
    severity="minor",
    remedy="Give KV a bucket of its own; strangers' objects count towards its quota and are never read.",
    source="facts/provisioning.md 2.9 (orphaned objects); issue 8, drill wrong bucket",
)
def _foreign(facts: TopicFacts) -> Verdict:
    tally, bucket = Tally(), facts["bucket"]
    line = f"{bucket['name']}: {bucket['foreign']} of {bucket['objects']} objects have no KV name"
    tally.add(bucket["foreign"] == 0, line)
    return tally.verdict()


@osc(
    "OSC001",
    "The management API answers, by a certificate that is checked",
    severity="major",
    remedy="Give objectscale_management_ca_path the array's certificate; check user, password and "
    "lock-out otherwise.",
    source="facts/objectscale.md 3",
)
def _management(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(facts["available"], facts["error"] or f"version {facts['version']}")
    if facts["available"]:
        tally.add(facts["verified"], f"the certificate is {'' if facts['verified'] else 'not '}checked")
    return tally.verdict()


@osc(
    "OSC002",
    "The array's release offers S3 over RDMA",
    remedy="Upgrade to ObjectScale 4.1 or newer; earlier releases have no S3 over RDMA.",
    source="facts/objectscale.md 1",
)
def _release(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"the management API does not answer: {facts['error']}")
    else:
        good = not facts["rdma_wanted"] or release(facts["version"])[:2] >= (4, 1)
        tally.add(good, f"ObjectScale {facts['version']}")
    return tally.verdict()


@osc(
    "OSC003",
    "Namespace, user and buckets of the lab exist",
    remedy="Run the playbook storage.yml (./lab up); somebody removed them on the array.",
    source="facts/objectscale.md 3",
)
def _there(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["available"]:
        tally.unknown(f"the management API does not answer: {facts['error']}")
        return tally.verdict()
    parts = {"the namespace": facts["namespace"], "the user": facts["user"]}
    parts |= {f"bucket {name}": there for name, there in facts["buckets"].items()}
    for name, there in parts.items():
        tally.add(there, f"{name} {'is there' if there else 'is missing'}")
    return tally.verdict()


@osc(
    "OSC004",
    "The store takes requests for RDMA",
    remedy="Enable S3 over RDMA on the array and its data NICs; without it every transfer goes through "
    "the HTTP body.",
    source="facts/objectscale.md 2; issue 8, drill RDMA declined",
)
def _rdma(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["rdma_wanted"]:
        tally.ok("the profile does not use RDMA")
    elif facts["rdma"] in (None, "unclear"):
        tally.unknown(f"the store's answer to an RDMA header is {facts['rdma'] or 'not known'}")
    else:
        tally.add(facts["rdma"] == "ready", f"RDMA is {facts['rdma']}")
    return tally.verdict()
