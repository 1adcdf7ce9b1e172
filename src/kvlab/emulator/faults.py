"""Faults on purpose, for drills: which there are, when each strikes, and how often it has.

A rule names a kind and narrows it: operation, bucket and key patterns, a count, a rate with a seed. Every request
asks the book once; what strikes is written in the access log. The effects are where the work is done (app, body,
objects, onesided, reply).
"""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

READS = ("GetObject", "HeadObject")
WRITES = (
    "PutObject",
    "UploadPart",
    "CopyObject",
    "UploadPartCopy",
    "CompleteMultipartUpload",
    "CreateBucket",
)
BODIES = ("PutObject", "UploadPart")
MANAGEMENT = "Management."  # what operations of the management API begin with
LISTS = ("ListObjects", "ListObjectsV2", "ListBuckets", "ListMultipartUploads", "ListParts")
ONE_SIDED = ("PutObject", "GetObject")


@dataclass(frozen=True)
class Kind:
    """What a fault does, which operations it can strike (none named: all), and what it needs to know."""

    says: str
    ops: tuple[str, ...] = ()
    rdma: bool | None = None  # True: only requests with a descriptor; False: only those without
    needs: tuple[str, ...] = ()
    management: bool = False  # strikes the management API, not S3


KINDS: dict[str, Kind] = {
    "latency": Kind("waits `seconds` before it serves the request", needs=("seconds",)),
    "slow-list": Kind("waits `seconds` before it lists", LISTS, needs=("seconds",)),
    "bandwidth": Kind(
        "lets no more than `bytes_per_second` of the payload through, per request",
        ("PutObject", "UploadPart", "GetObject"),
        needs=("bytes_per_second",),
    ),
    "slow-down": Kind("answers 503 SlowDown"),
    "full": Kind("answers 507 as if the store were full", WRITES),
    "revoked": Kind("answers 403 InvalidAccessKeyId as if the key had been deleted"),
    "clock-skew": Kind("lets the server's clock be `seconds` ahead", needs=("seconds",)),
    "reset-before": Kind("resets the connection before anything is done"),
    "reset-inside": Kind(
        "resets the connection after half of the payload", ("PutObject", "UploadPart", "GetObject")
    ),
    "reset-after": Kind("does everything, then resets the connection instead of ending the reply"),
    "short-body": Kind("sends one byte less, with a Content-Length that fits", ("GetObject",), rdma=False),
    "flip-read": Kind("flips one bit of what is read; the stored object stays right", ("GetObject",)),
    "flip-write": Kind("flips one bit of what is stored, after its ETag was made", BODIES),
    "stale-object": Kind("gives the object as it was before its last overwrite", READS),
    "lost-object": Kind("answers 404 for an object that was stored", READS),
    "wrong-object": Kind("gives another object of the bucket instead", READS),
    "rdma-declined": Kind(
        "declines: reply header 501; a PUT stores nothing, a GET has the bytes in the body",
        ONE_SIDED,
        rdma=True,
    ),
    "rdma-ignored": Kind(
        "ignores the descriptor: no reply header; a PUT leaves an empty object, a GET's buffer stays untouched",
        ONE_SIDED,
        rdma=True,
    ),
    "rdma-fallback": Kind("sends a GET's bytes in the body without saying so", ("GetObject",), rdma=True),
    "rdma-partial": Kind(
        "moves half of the bytes, then answers 500 RDMATransferFailed", ONE_SIDED, rdma=True
    ),
    "rdma-unmoved": Kind("reports success and moves nothing; a PUT leaves zeros", ONE_SIDED, rdma=True),
    "busy": Kind("management API: answers 503, code 6000, retryable", management=True),
    "failing": Kind("management API: answers 500, code 30024", management=True),
    "unlicensed": Kind("management API: answers 403, code 3001", management=True),
    "token-expired": Kind("management API: ends every token first", management=True),
}


@dataclass(frozen=True)
class Fault:
    """One rule. Patterns are shell patterns; `count` None is without end; `rate` 1.0 strikes every time."""

    name: str
    kind: str
    op: str = "*"
    bucket: str = "*"
    key: str = "*"
    count: int | None = None
    rate: float = 1.0
    seed: int = 0
    seconds: float = 0.0
    bytes_per_second: int = 0
    bit: int | None = None  # which bit flips, counted from the payload's first; None: drawn with the seed

    @staticmethod
    def make(fields: Mapping[str, Any]) -> Fault:
        """From JSON; ValueError with a sentence when it makes no sense."""
        unknown = set(fields) - set(Fault.__dataclass_fields__)
        if unknown:
            raise ValueError(f"a fault has no {', '.join(sorted(unknown))}")
        kind = fields.get("kind")
        if kind not in KINDS:
            raise ValueError(f"there is no fault {kind!r}; there are: {', '.join(KINDS)}")
        for name, types in _TYPES.items():
            value = fields.get(name)
            if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
                raise ValueError(f"{name} must be {'text' if types is str else 'a number'}")
            if isinstance(value, (int, float)) and name != "seconds" and value < 0:
                raise ValueError(f"{name} must not be negative")
        found = Fault(**{"name": kind, **{n: v for n, v in fields.items() if v is not None}})
        if not 0 < found.rate <= 1:
            raise ValueError("rate must be over 0 and at most 1")
        for needed in KINDS[kind].needs:
            if not getattr(found, needed):
                raise ValueError(f"{kind} needs {needed}")
        if found.seconds < 0 and kind != "clock-skew":
            raise ValueError("seconds must not be negative")
        ops = KINDS[kind].ops
        if ops and not any(fnmatch.fnmatchcase(op, found.op) for op in ops):
            raise ValueError(f"{kind} can only strike {', '.join(ops)}")
        return found


_TYPES: dict[str, Any] = {
    "name": str,
    "op": str,
    "bucket": str,
    "key": str,
    "count": int,
    "rate": (int, float),
    "seed": int,
    "seconds": (int, float),
    "bytes_per_second": int,
    "bit": int,
}


@dataclass
class _Armed:
    fault: Fault
    random: random.Random
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Struck:
    """The faults that strike one request, by kind."""

    by_kind: dict[str, Fault] = field(default_factory=dict)
    draws: dict[str, float] = field(default_factory=dict)

    def __contains__(self, kind: str) -> bool:
        return kind in self.by_kind

    def __getitem__(self, kind: str) -> Fault:
        return self.by_kind[kind]

    @property
    def names(self) -> str | None:
        """For the access log: the names, or None."""
        return ",".join(fault.name for fault in self.by_kind.values()) or None

    @property
    def delay(self) -> float:
        """Seconds to wait before the request is served."""
        return sum(f.seconds for k, f in self.by_kind.items() if k in ("latency", "slow-list"))

    def bit(self, kind: str, size: int) -> int:
        """Which bit of `size` bytes flips."""
        wanted = self.by_kind[kind].bit
        return (wanted if wanted is not None else int(self.draws[kind] * size * 8)) % (size * 8)


NO_FAULT = Struck()  # what strikes nearly every request


class FaultBook:
    """The rules there are. One thread uses it (the event loop's)."""

    def __init__(self) -> None:
        self._armed: dict[str, _Armed] = {}

    def add(self, fault: Fault) -> None:
        """Arm a rule; ValueError when one of that name is armed already."""
        if fault.name in self._armed:
            raise ValueError(f"there is a fault named {fault.name} already; clear it or choose another name")
        self._armed[fault.name] = _Armed(fault, random.Random(fault.seed))

    def clear(self, name: str | None = None) -> int:
        """Forget the rule of that name, or all; how many there were."""
        if name is None:
            count = len(self._armed)
            self._armed.clear()
            return count
        return 1 if self._armed.pop(name, None) else 0

    def listed(self) -> list[dict[str, Any]]:
        """Every rule with how often it has struck."""
        return [asdict(a.fault) | {"hits": a.hits} for a in self._armed.values()]

    def armed(self, kind: str) -> bool:
        """Whether any rule of the kind is there."""
        return any(a.fault.kind == kind for a in self._armed.values())

    def strike(self, op: str, bucket: str, key: str, *, rdma: bool) -> Struck:
        """What strikes this request; counts and random draws advance."""
        if not self._armed:
            return NO_FAULT
        struck = Struck()
        for armed in self._armed.values():
            fault = armed.fault
            kind = KINDS[fault.kind]
            if (
                fault.kind in struck
                or (kind.ops and op not in kind.ops)
                or op.startswith(MANAGEMENT) != _is_management(fault)
                or (kind.rdma is not None and kind.rdma != rdma)
                or not fnmatch.fnmatchcase(op, fault.op)
                or not fnmatch.fnmatchcase(bucket, fault.bucket)
                or not fnmatch.fnmatchcase(key, fault.key)
                or (fault.count is not None and armed.hits >= fault.count)
            ):
                continue
            if fault.rate < 1 and armed.random.random() >= fault.rate:
                continue
            armed.hits += 1
            struck.by_kind[fault.kind] = fault
            struck.draws[fault.kind] = armed.random.random()
        return struck


def _is_management(fault: Fault) -> bool:
    """Whether it strikes the management API: by its kind, or because its operation says so (latency, resets)."""
    return KINDS[fault.kind].management or fault.op.startswith(MANAGEMENT)
