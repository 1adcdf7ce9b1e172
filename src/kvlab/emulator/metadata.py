"""What travels with an object: the headers S3 gives back, and user metadata."""

from __future__ import annotations

from kvlab.emulator.call import Call
from kvlab.emulator.dialect import Dialect
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Meta
from kvlab.emulator.retention import PERIOD, checked

MAX_USER_METADATA = 2048  # bytes of names and values together, as on AWS; ECS allows more
_KEPT = (
    "Content-Type",
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Expires",
)
_POLICY = "x-emc-retention-policy"
"""It names a retention class of the namespace, which this store does not look up."""


def meta_from(call: Call, dialect: Dialect) -> Meta:
    """What the request says about its object: the headers to give back, x-amz-meta-* and its retention."""
    headers = {name: call.header(name) for name in _KEPT if call.has(name)}
    if dialect.emc_headers and call.has(_POLICY):
        raise S3Error("NotImplemented", "Retention policies are not implemented.", Header=_POLICY)
    if dialect.emc_headers and call.has(PERIOD):
        headers[PERIOD] = checked(call.header(PERIOD))
    if "aws-chunked" in headers.get("Content-Encoding", "").lower():  # how the body came, not what it is
        codings = [c.strip() for c in headers.pop("Content-Encoding").split(",")]
        kept = ", ".join(c for c in codings if c and c.lower() != "aws-chunked")
        if kept:
            headers["Content-Encoding"] = kept
    user = {
        name[11:]: ",".join(values) for name, values in call.headers.items() if name.startswith("x-amz-meta-")
    }
    if (
        sum(len(n.encode()) + len(v.encode("utf-8", "surrogateescape")) for n, v in user.items())
        > MAX_USER_METADATA
    ):
        raise S3Error("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size.")
    return Meta(headers, user)
