"""Which path the payload took (facts/provisioning.md 3.1): DONE and right bytes do not prove it.

Topic `path`: {"simulated": bool, "lab_simulated": bool, "expected_path": "rdma"|"http"|"file",
               "transfers": [{"op": "read"|"write", "key", "size", "state"}, ...] in the order they ran,
               "access_log": [request, ...] of that bucket and time, as probes.access_log gives them,
               "file", "slots": where files are expected, as in checks.file_tier}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from kvlab.checks import file_tier
from kvlab.checks.registry import Tally, TopicFacts, Verdict, check, verdict

_SOURCE = "facts/provisioning.md 3.1"
_VERB = {"read": "GET", "write": "PUT"}


def is_payload(request: Any) -> bool:
    """Whether a logged request is an object's GET or PUT (HEAD and LIST carry no payload)."""
    return request["op"] in ("GetObject", "PutObject", "GET", "PUT") and bool(request.get("key"))


def reads(request: Any) -> bool:
    """Whether a payload request is a read."""
    return request["op"] in ("GetObject", "GET")


def by_rdma(request: Any) -> int:
    """Payload bytes of a request that travelled one-sided."""
    return int(request["rdma_out"] if reads(request) else request["rdma_in"])


def by_body(request: Any) -> int:
    """Payload bytes of a request that travelled in the HTTP body."""
    return int(request["body_out"] if reads(request) else request["body_in"])


def describe(request: Any) -> str:
    """A request in one line of evidence."""
    return (
        f"{request['op']} {request['key']} -> {request['status']}: {by_rdma(request)} bytes by RDMA, "
        f"{by_body(request)} in the body"
    )


def _pairs(facts: TopicFacts) -> Iterator[tuple[Any, list[Any]]]:
    """Each transfer with the payload requests for its key and direction; equal ones share them in order."""
    logged: dict[tuple[str, bool], list[Any]] = defaultdict(list)
    for request in facts["access_log"]:
        if is_payload(request):
            logged[request["key"], reads(request)].append(request)
    left: dict[tuple[str, bool], int] = defaultdict(int)
    for transfer in facts["transfers"]:
        left[transfer["key"], transfer["op"] == "read"] += 1
    for transfer in facts["transfers"]:
        slot = transfer["key"], transfer["op"] == "read"
        left[slot] -= 1
        # The last transfer of a key takes all that is left, so that a retry is never overlooked.
        take = len(logged[slot]) if left[slot] == 0 else 1
        yield transfer, logged[slot][:take]
        logged[slot] = logged[slot][take:]


@check(
    "PATH001",
    "Every transfer left its request in the object store's log, or its bytes in the folder",
    stage="path",
    severity="critical",
    topic="path",
    remedy="Name the bucket and access log (or the folder) of this run, and repeat it while nothing "
    "rotates the log.",
    source=_SOURCE,
)
def _evidence(facts: TopicFacts) -> Verdict:
    if facts["expected_path"] == "file":
        return file_tier.stored(facts)
    tally = Tally()
    for transfer, requests in _pairs(facts):
        name = f"{transfer['op']} {transfer['key']}"
        if requests:
            tally.ok(f"{name}: {len(requests)} request(s)")
        else:
            tally.unknown(f"{name}: no {_VERB[transfer['op']]} of that key in the log")
    return tally.verdict()


@check(
    "PATH002",
    "The payload travelled by the path that the profile promises",
    stage="path",
    severity="critical",
    topic="path",
    remedy="For rdma: accelerated 'true' and type 'dell' as strings, libcuobjclient.so.1 connected, RDMA "
    "enabled on the endpoint; for http: neither parameter; for file: direct I/O on the mounted folder.",
    source=_SOURCE,
)
def _as_promised(facts: TopicFacts) -> Verdict:
    expected = facts["expected_path"]
    if expected == "file":
        return file_tier.carried(facts)
    if expected not in ("rdma", "http"):
        return Verdict("inconclusive", (f"expected path {expected!r} is neither rdma, http nor file",))
    tally = Tally()
    for transfer, requests in _pairs(facts):
        served = [r for r in requests if 200 <= int(r["status"]) < 300]
        if not served:
            tally.unknown(f"{transfer['op']} {transfer['key']}: no request that succeeded in the log")
            continue
        moved = sum(by_rdma(r) for r in served), sum(by_body(r) for r in served)
        wanted, other = moved if expected == "rdma" else moved[::-1]
        line = f"{describe(served[-1])}, payload {transfer['size']}"
        tally.add(wanted >= transfer["size"] and other == 0, line)
    return tally.verdict()


@check(
    "PATH003",
    "No request that asked for RDMA was answered in the HTTP body; files need no request",
    stage="path",
    severity="critical",
    topic="path",
    remedy="The endpoint declined RDMA: check its RDMA setting and its route to the client's RDMA address.",
    source=_SOURCE,
)
def _not_declined(facts: TopicFacts) -> Verdict:
    payload = [r for r in facts["access_log"] if is_payload(r)]
    if facts["expected_path"] == "file":
        return file_tier.store_untouched(payload)
    asked = [r for r in payload if r["rdma_requested"]]
    failures = [describe(r) for r in asked if by_rdma(r) == 0 or by_body(r) > 0]
    if payload and not asked and facts["expected_path"] == "http":
        return verdict([], [], [f"{len(payload)} request(s), none asked for RDMA"])
    if payload and not asked:
        failures = [f"{len(payload)} request(s), none asked for RDMA although the profile promises it"]
    return verdict(
        failures,
        [],
        [f"{len(asked)} of {len(payload)} request(s) asked for RDMA and got it"] if asked else [],
    )


@check(
    "PATH004",
    "A lab with real hardware shows no simulated path",
    stage="path",
    severity="critical",
    topic="path",
    remedy="Use the real array and NVIDIA's libcuobjclient.so.1, or mark the lab simulated.",
    source="design.md, Proof of path",
)
def _honest(facts: TopicFacts) -> Verdict:
    marks = [facts["simulated"], *(r["simulated"] for r in facts["access_log"])]
    if facts["lab_simulated"]:
        return verdict([], [], ["the lab says that it is simulated"])
    if any(marks):
        return verdict(
            [f"{sum(map(bool, marks))} of {len(marks)} pieces of evidence come from a stand-in"], [], []
        )
    unknown = ["the evidence does not say whether it is simulated"] if None in marks else []
    return verdict([], unknown, [f"{len(marks)} pieces of evidence, none from a stand-in"])
