"""What proves the path of the `file` profile: bytes in its folder, the kernel's counts, and a store left alone.

Facts "file", beside those of topic `path` or of a pass of topic `kv`: null where nobody counted, else {"direct_io":
bool, "read", "written": bytes that LMCache's server moved from and to storage meanwhile, by the kernel's count}. Topic
`path` also has "slots": [{"key", "size"}, ...], what lies in the folder afterwards. The kernel counts what passes
the page cache by; with buffered I/O a read that it did not count says nothing.
"""

from __future__ import annotations

from typing import Any

from kvlab.checks.registry import Tally, TopicFacts, Verdict


def stored(facts: TopicFacts) -> Verdict:
    """Every transfer's slot lies in the folder, whole."""
    tally = Tally()
    found = {slot["key"]: slot["size"] for slot in facts["slots"]}
    for transfer in facts["transfers"]:
        name = f"{transfer['op']} {transfer['key']}"
        have = found.get(transfer["key"], 0)
        tally.add(have >= transfer["size"], f"{name}: {have} of {transfer['size']} bytes lie in the folder")
    return tally.verdict()


def carried(facts: TopicFacts) -> Verdict:
    """The kernel counted as many bytes as the transfers of each direction have."""
    tally = Tally()
    for op, counted in (("read", "read"), ("write", "written")):
        payload = sum(t["size"] for t in facts["transfers"] if t["op"] == op)
        if payload:
            count(tally, facts["file"], counted, payload, f"{op}s of {payload} bytes")
    return tally.verdict()


def count(tally: Tally, file: Any, counted: str, payload: int, name: str) -> None:
    """Add whether the kernel's count reaches the payload; with buffered I/O less is no evidence at all."""
    if file is None:
        tally.unknown(f"{name}: nobody counted, for LMCache's server was not there all the time")
        return
    line = (
        f"{name}: the kernel counted {file[counted]} bytes {counted} by LMCache's server, {payload} expected"
    )
    if file[counted] >= payload or file["direct_io"]:
        tally.add(file[counted] >= payload > 0, line)
    else:
        tally.unknown(
            f"{line}; the page cache, which it does not count, may have answered (direct_io is off)"
        )


def store_untouched(payload_requests: list[Any]) -> Verdict:
    """No object was read or written meanwhile."""
    tally = Tally()
    for request in payload_requests:
        tally.fail(f"{request['op']} {request['bucket']}/{request['key']} although the profile uses files")
    if not payload_requests:
        tally.ok("no object was read or written")
    return tally.verdict()
