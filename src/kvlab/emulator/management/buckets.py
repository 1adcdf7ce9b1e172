"""Buckets as ops make them. They are the buckets of S3: settings stand in their attributes, where S3 honours them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from kvlab.emulator import access
from kvlab.emulator.buckets import valid_bucket_name
from kvlab.emulator.index import Bucket
from kvlab.emulator.log import iso
from kvlab.emulator.management import emptying, limits, topology
from kvlab.emulator.management.ask import Answer, Ask, flag, items, number, tag_pairs, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.management.records import Document
from kvlab.emulator.retention import PERIOD

MAX_TAGS = 10
VPOOL = "x-emc-dataservice-vpool"
FILESYSTEM = "x-emc-file-system-access-enabled"
STALE = "x-emc-is-stale-allowed"
ENCRYPTION = "x-emc-server-side-encryption-enabled"
_LATER = ("is_object_lock_enabled", "is_object_lock_with_ado_allowed", "enableAdvancedMetadataSearch")


def link(bucket: Bucket) -> Document:
    return {"rel": "self", "href": f"/object/bucket/{bucket.name}"}


def create(ask: Ask) -> Answer:
    """Make a bucket. Without an owner the management user becomes one, which no S3 request can use."""
    body = ask.body
    name, namespace = text(body, "name"), ask.namespace()
    if not valid_bucket_name(name, wide=True):
        raise ApiError(40009, f"{name} is not a valid bucket name")
    place = ask.records.get("namespace", namespace)
    assert place is not None
    owner = owner_in(ask, namespace, text(body, "owner", "")) if body.get("owner") else ask.admin.name
    group = text(body, "vpool", place["default_data_services_vpool"])
    refuse_missing(body)
    if text(body, "head_type", "s3").lower() != "s3":
        raise ApiError(1008, "head_type must be s3: the emulated array has no other head")
    if flag(body, "is_tso_read_only", default=False) and not flag(body, "is_stale_allowed", default=False):
        raise ApiError(1008, "is_tso_read_only needs is_stale_allowed")
    for setting, least in (("autocommit_period", 0), ("audited_delete_expiration", -1)):
        if number(body, setting, least) < least:
            raise ApiError(1008, f"{setting} must be at least {least}")
    if not all(isinstance(item, dict) for item in items(body, "search_metadata")):
        raise ApiError(1008, "search_metadata must be a list of objects")
    encrypted = flag(body, "is_encryption_enabled", place["is_encryption_enabled"] == "true")
    sizes = limits.given(body, complete=False)
    if sizes["blockSize"] == -1 and place["default_bucket_block_size"] > 0:
        sizes["blockSize"] = place["default_bucket_block_size"]
    attributes: dict[str, object] = {
        VPOOL: topology.known_group(ask.array, group),
        FILESYSTEM: str(flag(body, "filesystem_enabled", default=False)).lower(),
        STALE: str(flag(body, "is_stale_allowed", default=False)).lower(),
        ENCRYPTION: str(encrypted).lower(),
        PERIOD: str(period(body, "retention")),
        "is_tso_read_only": flag(body, "is_tso_read_only", default=False),
        "auto_commit_period": number(body, "autocommit_period", 0),
        "audit_delete_expiration": number(body, "audited_delete_expiration", -1),
        "default_group": text(body, "default_group", ""),
        "search_metadata": items(body, "search_metadata"),
        access.QUOTA: sizes,
        "tags": checked_tags(tag_pairs(body, "TagSet", "Key", "Value")) if body.get("TagSet") else {},
    }
    try:
        made = ask.array.service.index.create_bucket(namespace, name, owner, attributes)
    except sqlite3.IntegrityError:
        raise ApiError(40008, "Bucket already exists") from None
    emptying.forget(ask.records, made)
    return Answer({"name": name, "id": f"{namespace}.{name}", "link": link(made)}, "object_bucket")


def list_all(ask: Ask) -> Answer:
    namespace = ask.namespace()
    found = {bucket.name: bucket for bucket in ask.array.service.index.buckets(namespace)}
    shown, more = ask.page(sorted(found))
    entries = [_info(ask, found[name]) for name in shown]
    return Answer({"object_bucket": entries, "MaxBuckets": len(entries)} | more, "object_buckets")


def info(ask: Ask) -> Answer:
    return Answer(_info(ask, find(ask)), "bucket_info")


def deactivate(ask: Ask) -> Answer:
    """Remove the bucket. With objects in it, only by `emptyBucket=true`: then 202, and a task goes on behind it."""
    bucket = find(ask)
    index = ask.array.service.index
    if index.is_empty(bucket.id):
        emptying.remove_bucket(ask.array, bucket)
        return Answer()
    if not flag(ask.query, "emptyBucket", default=False):
        raise ApiError(1020, f"The bucket {bucket.name} is not empty")
    if emptying.in_progress(ask.records, bucket):
        raise ApiError(1008, f"The bucket {bucket.name} is being emptied already")
    emptying.begin(ask.array, bucket)
    return Answer(status=202)


def empty_status(ask: Ask) -> Answer:
    """How far the task is; NOT_FOUND when there is none, after its end the last one of that name."""
    task = emptying.status(ask.records, ask.namespace(), ask.place["bucket"])
    return Answer(task, "empty_bucket_status")


def find(ask: Ask) -> Bucket:
    """The bucket that the path names, in the namespace that query or body names."""
    name = ask.place["bucket"]
    found = ask.array.service.index.bucket(ask.namespace(), name)
    if found is None:
        raise not_found(name)
    return found


def owner_in(ask: Ask, namespace: str, owner: str) -> str:
    """An owner that S3 can be asked by: an object user of the namespace, or its root."""
    user = ask.records.get("user", owner)
    if owner != access.root_of(namespace) and (user is None or user["namespace"] != namespace):
        raise ApiError(40010, f"{owner} is no object user of the namespace {namespace}")
    return owner


def period(body: Mapping[str, Any], name: str) -> int:
    """A retention period in seconds, -1 without end, 0 for none."""
    found = number(body, name, 0)
    if found < -1:
        raise ApiError(1008, f"{name} must be a number of seconds, or -1")
    return found


def checked_tags(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > MAX_TAGS:
        raise ApiError(1031, f"A bucket has at most {MAX_TAGS} tags")
    return tags


def refuse_missing(body: Mapping[str, Any]) -> None:
    """ApiError 1007 for what the emulated S3 has not: nothing is taken that would not be honoured."""
    asked = [name for name in _LATER if flag(body, name, default=False)]
    if text(body, "versioning_status", "Off").lower() == "enabled":
        asked.append("versioning_status")
    if body.get("copy_policy"):
        asked.append("copy_policy")
    if asked:
        raise ApiError(1007, f"{', '.join(asked)} is not supported by the emulated array")


def _info(ask: Ask, bucket: Bucket) -> Document:
    kept = bucket.attributes
    sizes = access.quota_of(bucket)
    retention = int(str(kept.get(PERIOD) or 0))
    metadata = kept.get("search_metadata") or []
    return {
        "name": bucket.name,
        "id": f"{bucket.namespace}.{bucket.name}",
        "link": link(bucket),
        "created": iso(bucket.created),
        "softquota": str(sizes["notificationSize"]),
        "fs_access_enabled": _is_on(kept.get(FILESYSTEM)),
        "locked": access.is_locked(bucket),
        "vpool": str(kept.get(VPOOL) or next(iter(topology.group_ids(ask.array)))),
        "namespace": bucket.namespace,
        "owner": bucket.owner,
        "is_stale_allowed": _is_on(kept.get(STALE)),
        "is_tso_read_only": bool(kept.get("is_tso_read_only")),
        "is_object_lock_enabled": False,
        "is_object_lock_with_ado_allowed": False,
        "is_encryption_enabled": str(_is_on(kept.get(ENCRYPTION))).lower(),
        "default_retention": retention,
        "retention": retention,
        "block_size": sizes["blockSize"],
        "notification_size": sizes["notificationSize"],
        "blockSizeInCount": sizes["blockSizeInCount"],
        "notificationSizeInCount": sizes["notificationSizeInCount"],
        "auto_commit_period": kept.get("auto_commit_period") or 0,
        "audit_delete_expiration": kept.get("audit_delete_expiration", -1),
        "api_type": "S3",
        "TagSet": [{"Key": key, "Value": value} for key, value in tags_of(bucket).items()],
        "default_group": kept.get("default_group") or "",
        "search_metadata": {
            "isEnabled": bool(metadata),
            "metadata": metadata,
            "mdTokens": False,
            "maxKeys": 0,
        },
        "is_empty_bucket_in_progress": emptying.in_progress(ask.records, bucket),
        "versioning_status": "Off",
    }


def tags_of(bucket: Bucket) -> dict[str, str]:
    found = bucket.attributes.get("tags") or {}
    assert isinstance(found, dict)
    return found


def _is_on(value: object) -> bool:
    return str(value).lower() == "true"
