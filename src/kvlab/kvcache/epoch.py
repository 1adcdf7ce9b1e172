"""Cache epoch: a short name for everything that decides whether stored KV may be served again.

LMCache's object keys carry no model revision, so a new checkpoint under the old name would be answered with
old KV. A bucket is therefore named after the epoch, and carries it in a small object that is compared
before serving.
"""

from __future__ import annotations

import hashlib
import json

from kvlab.errors import KvlabError
from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.profile import ProfileSpec

LENGTH = 12
"""Hexadecimal digits of an epoch: 48 bits, ample for the buckets of one store."""


def of(spec: ProfileSpec, geometry: Geometry) -> str:
    """The epoch of a profile: a hash of model, revision, stack, KV dtype, TP, PP and chunk size."""
    parts = {
        "model": spec.served_model_name or spec.model,
        "revision": spec.revision,
        "vllm": spec.vllm,
        "lmcache": spec.lmcache,
        "kv_dtype": geometry.kv_dtype,
        "bytes_per_token": geometry.bytes_per_token,
        "tp": spec.tp,
        "pp": spec.pp,
        "chunk_size": spec.chunk_size,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:LENGTH]


def bucket_name(prefix: str, epoch: str) -> str:
    """The bucket of an epoch: `<prefix>-<epoch>`, within S3's 63 characters."""
    name = f"{prefix}-{epoch}"
    if len(name) > 63:
        raise KvlabError(f"bucket prefix {prefix!r} is too long; it may have {62 - LENGTH} characters.")
    return name


def compare(bucket: str, found: str | None, wanted: str) -> None:
    """Refuse to serve on a bucket that was filled under another epoch.

    Raises:
        KvlabError: says how to go on.
    """
    if found is not None and found != wanted:
        raise KvlabError(
            f"bucket {bucket} holds KV of epoch {found}, these weights and settings are epoch {wanted}: "
            "old KV would be served as if it were valid. Use a bucket of the new epoch, or empty this one."
        )


def to_record(bucket: str, found: str | None, holds_kv: bool, wanted: str) -> bool:
    """Whether the wanted epoch must be recorded in the bucket; it is only where there is no KV yet.

    Raises:
        KvlabError: the bucket holds KV of another epoch, or of one that nobody recorded; says how to go on.
    """
    if not holds_kv:
        return found != wanted
    if found is None:
        raise KvlabError(
            f"bucket {bucket} holds objects but no epoch is recorded in it: nobody can tell which weights and settings "
            f"they belong to. Use an empty bucket for epoch {wanted}, or empty this one."
        )
    compare(bucket, found, wanted)
    return False
