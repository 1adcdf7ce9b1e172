"""Quotas of namespaces and buckets: two sizes in GB, set together, -1 for none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlab.objectscale.plan import Call, Document

SMALLEST_GB = 10**9
"""Bytes of the unit at least: whether the array counts 10^9 or 2^30 is not documented, and who watches for a full
bucket must not be late."""

_COUNTS = ("blockSizeInCount", "notificationSizeInCount")


def counts(found: Document) -> Document:
    """The limits on numbers of objects that are set, which a change of sizes is to leave alone."""
    return {name: found[name] for name in _COUNTS if int(found.get(name) or -1) > 0}


def call(path: str, about: str, values: Mapping[str, Any], namespace: str | None = None) -> Call:
    """Set `quota_gb` and `quota_notify_gb` of `values`, and the counts in it. A bucket's quota names the namespace.

    The array refuses two sizes of -1: no limit at all has a call of its own.
    """
    place = {"namespace": namespace} if namespace else {}
    limits = {"blockSize": values["quota_gb"], "notificationSize": values["quota_notify_gb"]}
    limits |= {name: values[name] for name in _COUNTS if name in values}
    if set(limits.values()) == {-1}:
        return Call("DELETE", f"{path}/quota", about, query=place)
    return Call("PUT", f"{path}/quota", about, {**limits, **place})
