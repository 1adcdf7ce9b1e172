"""Did the bytes arrive, and can the engine run at all.

Topic `roundtrip`: one document of probes.nixl_roundtrip, plus "witness": {key: SHA-256 or null}: what boto3
read (or wrote) over plain HTTP, null where it found no object.
"""

from __future__ import annotations

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check, verdict


@check(
    "NIXL001",
    "NIXL can load its OBJ plugin and make the backend",
    stage="path",
    severity="critical",
    topic="roundtrip",
    remedy="Install the library that is named (libcuobjclient.so.1: package libcuobjclient-13-x, or ./lab up "
    "in the local lab) and put it on the loader's path.",
    source="facts/provisioning.md 2.8, 2.8b",
)
def _plugin(facts: TopicFacts) -> Verdict:
    plugin, tally = facts["plugin"], Tally()
    for name in plugin["missing"]:
        tally.fail(f"{plugin['file']} needs {name}, which is not installed")
    if plugin["load_error"]:
        tally.fail(f"the loader says: {plugin['load_error']}")
    if facts["backend_error"]:
        tally.fail(f"NIXL says: {facts['backend_error']}")
    if tally.failed:
        return tally.verdict()
    if facts["endpoint_error"]:
        return verdict([], [f"the endpoint does not answer: {facts['endpoint_error']}"], [])
    return verdict([], [], [f"memory kinds of the backend: {', '.join(facts['backend_mem_types'])}"])


@check(
    "NIXL002",
    "The backend offers the kind of memory that was transferred",
    stage="path",
    severity="major",
    topic="roundtrip",
    remedy="Plain S3 engines take host memory only; use DRAM buffers, or the Dell engine for device memory.",
    source="facts/provisioning.md 2.8",
)
def _memory(facts: TopicFacts) -> Verdict:
    offered = facts.get("backend_mem_types", [])
    used = sorted({t["mem_type"] for t in facts["transfers"]})
    failures = [f"{kind} was used, {offered} is offered" for kind in used if f"{kind}_SEG" not in offered]
    return verdict(failures, [], [f"{kind} is offered" for kind in used])


@check(
    "DATA001",
    "Every buffer holds the expected bytes and its guards are untouched",
    stage="path",
    severity="critical",
    topic="roundtrip",
    remedy="Do not use this path: data is lost or memory overwritten. Keep the object and both logs.",
    source="facts/local_stack.md: the engine takes HTTP success for transfer success",
)
def _bytes(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for transfer in facts["transfers"]:
        name = f"{transfer['op']} {transfer['key']} ({transfer['size']} bytes): {transfer['state']}"
        wrong = [
            reason
            for bad, reason in (
                (transfer["state"] != "DONE", transfer["error"] or "did not end"),
                (
                    not transfer["equal"],
                    f"the buffer differs: {transfer.get('difference') or 'how was not recorded'}",
                ),
                (not transfer["guards_ok"], "a guard beside the buffer was overwritten"),
            )
            if bad
        ]
        tally.add(not wrong, f"{name}{': ' if wrong else ''}{'; '.join(wrong)}")
    return tally.verdict()


@check(
    "DATA002",
    "An independent client sees the same bytes in the object store",
    stage="path",
    severity="critical",
    topic="roundtrip",
    remedy="The store holds other bytes than the client sent or read; a declined PUT leaves an empty object.",
    source="facts/local_stack.md: a declined PUT can leave an empty object",
)
def _witness(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for transfer in facts["transfers"]:
        name = f"{transfer['op']} {transfer['key']} ({transfer['size']} bytes)"
        if transfer["key"] not in facts["witness"]:
            tally.unknown(f"{name}: no witness")
            continue
        seen = facts["witness"][transfer["key"]]
        if seen is None:
            tally.fail(f"{name}: the store has no such object")
        elif seen != transfer["expected_sha256"]:
            tally.fail(f"{name}: the witness has {seen[:12]}, expected {transfer['expected_sha256'][:12]}")
        else:
            tally.ok(f"{name}: {seen[:12]}")
    return tally.verdict()
