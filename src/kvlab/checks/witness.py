"""The path, by witnesses that neither client nor store can influence: counters of the NICs around a transfer.

Topic `transfer_counters`: {"payload": bytes, "direction": "in"|"out", "seconds", "quiet": {"rdma": bytes, "tcp":
bytes} in an interval of equal length before, "client": {"rdma", "tcp": bytes}, "server": {"rdma", "tcp"} or null,
"control": {"rdma", "tcp", "payload"} of the same transfer over HTTP or null, "lab_simulated": bool} RDMA bytes are
port_xmit_data or port_rcv_data times 4; where the netdev's counters contain RDMA (vport), `tcp` is
rx_vport_unicast_bytes alone.
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

witness = functools.partial(check, stage="path", topic="transfer_counters", severity="critical")

_SOURCE = "facts/provisioning.md 3.1"
TCP_SHARE = 0.05
"""Requests, replies and acknowledgements of a transfer are under a twentieth of it."""

QUIET_SHARE = 0.1


@witness(
    "PATH010",
    "The client's NICs moved the payload by RDMA, and TCP did not",
    remedy="See PATH002 for why a transfer falls back; RDMA bytes below the payload are a fallback, "
    "whatever the engine says.",
    source=f"{_SOURCE}; 3, row 24 (LMCache/LMCache#605)",
)
def _client(facts: TopicFacts) -> Verdict:
    tally, payload, moved = Tally(), facts["payload"], facts["client"]
    tally.add(moved["rdma"] >= payload > 0, f"{moved['rdma']:,} bytes by RDMA, payload {payload:,}")
    tally.add(moved["tcp"] <= payload * TCP_SHARE, f"{moved['tcp']:,} bytes by TCP")
    return tally.verdict()


@witness(
    "PATH011",
    "The server's NICs say the same",
    remedy="Read the counters on the array's side (or its switch ports): a client alone can be wrong "
    "about its path.",
    source="facts/provisioning.md after 3: check RDMA counters on the server",
)
def _server(facts: TopicFacts) -> Verdict:
    tally, server = Tally(), facts["server"]
    if server is None:
        tally.unknown("the server's counters were not read")
    else:
        tally.add(server["rdma"] >= facts["payload"], f"{server['rdma']:,} bytes by RDMA at the server")
    return tally.verdict()


@witness(
    "PATH012",
    "The NICs were quiet before, so that the counters speak of this transfer",
    severity="major",
    remedy="Repeat while nothing else uses these NICs, or with a payload ten times the noise.",
    source="issue 8, path proof on shared NICs",
)
def _quiet(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for kind, count in facts["quiet"].items():
        limit = facts["payload"] * (QUIET_SHARE if kind == "rdma" else TCP_SHARE)
        line = f"{count:,} bytes by {kind} in {facts['seconds']:g} s before"
        if count < limit:
            tally.ok(line)
        else:
            tally.unknown(line)
    return tally.verdict()


@witness(
    "PATH013",
    "The same transfer over HTTP looks different",
    severity="major",
    remedy="If the control looks the same, the counters do not tell the paths apart: use "
    "rx_vport_rdma_unicast_bytes.",
    source="issue 8, control transfer; facts/provisioning.md 3, row 15 (negative test)",
)
def _control(facts: TopicFacts) -> Verdict:
    tally, control = Tally(), facts["control"]
    if control is None:
        tally.unknown("no control transfer was made")
    else:
        payload = control["payload"]
        good = control["tcp"] >= payload and control["rdma"] <= payload * TCP_SHARE
        tally.add(
            good,
            f"over HTTP: {control['tcp']:,} bytes by TCP, {control['rdma']:,} by RDMA, payload {payload:,}",
        )
    return tally.verdict()
