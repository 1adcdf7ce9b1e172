"""Who may do what to a bucket on S3: its owner, those its policy or their own lets in, within lock and quota.

What the management API sets is kept in the bucket's attributes; the names are here, where they are honoured.
"""

from __future__ import annotations

from typing import Any

from kvlab.emulator import policies
from kvlab.emulator.auth import Verified
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Index
from kvlab.emulator.users import User

QUOTA, POLICY, LOCKED, EMPTYING = "quota", "policy", "locked", "emptying"
GB = 1 << 30  # bytes of a quota's unit; that the array counts in binary gigabytes is a guess

LIMITS = ("blockSize", "notificationSize", "blockSizeInCount", "notificationSizeInCount")
_ACTIONS = {
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "GetBucketLifecycle": "GetLifecycleConfiguration",
    "PutBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "HeadObject": "GetObject",
    "DeleteObjects": "DeleteObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "ListParts": "ListMultipartUploadParts",
}
"""Actions of policies by operation, where the names differ."""

_CHANGES = frozenset(
    {
        "PutObject",
        "CopyObject",
        "CreateMultipartUpload",
        "UploadPart",
        "UploadPartCopy",
        "CompleteMultipartUpload",
        "AbortMultipartUpload",
        "DeleteObject",
        "DeleteObjects",
        "DeleteBucket",
        "PutBucketLifecycle",
        "DeleteBucketLifecycle",
    }
)


def root_of(namespace: str) -> str:
    """Who owns the buckets of a namespace's IAM users."""
    return f"urn:ecs:iam::{namespace}:root"


def owner_for(who: Verified | None, action: str) -> str:
    """Who owns the buckets that the caller makes and lists; AccessDenied when an IAM user may not do that."""
    assert who is not None
    user = who.user
    if not user.iam_name:
        return user.access_key
    said = [policies.judge(p, action=f"s3:{action}", resource="*", principals=None) for p in user.policies]
    if "deny" in said or "allow" not in said:
        raise S3Error("AccessDenied", "Access Denied.")
    return root_of(user.namespace)


def check(bucket: Bucket, user: User, op: str, key: str) -> None:
    """S3's AccessDenied unless the user may do this to the bucket, or to the key in it."""
    if is_locked(bucket):
        raise S3Error("AccessDenied", "The bucket is locked.")
    if EMPTYING in bucket.attributes and op in _CHANGES:
        raise S3Error("AccessDenied", "The bucket is being emptied and is read-only meanwhile.")
    kept = bucket.attributes.get(POLICY)
    # Nearly every request is the owner's, on a bucket without a policy.
    if kept is None and not user.iam_name:
        if bucket.owner != user.access_key:
            raise S3Error("AccessDenied", "Access Denied.")
        return
    action = f"s3:{_ACTIONS.get(op, op)}"
    resource = f"{bucket.name}/{key}" if key else bucket.name
    said = [policies.judge(p, action=action, resource=resource, principals=None) for p in user.policies]
    if isinstance(kept, dict) and kept:
        names = frozenset({user.access_key, user.iam_name, *([_arn(user)] if user.iam_name else ())} - {""})
        said.append(policies.judge(kept, action=action, resource=resource, principals=names))
    owns = not user.iam_name and bucket.owner == user.access_key
    if "deny" in said or not (owns or "allow" in said):
        raise S3Error("AccessDenied", "Access Denied.")


def check_quota(bucket: Bucket, index: Index, key: str, size: int) -> None:
    """S3's QuotaExceeded when an object of `size` bytes under the key would take the bucket over its hard limit."""
    if not bucket.attributes.get(QUOTA):
        return
    limits = quota_of(bucket)
    if limits["blockSize"] == -1 and limits["blockSizeInCount"] == -1:
        return
    count, stored = index.usage(bucket.id)
    before = index.get(bucket.id, key)
    count, stored = count + (before is None), stored + size - (before.size if before else 0)
    if exceeded(limits, count, stored):
        raise S3Error("QuotaExceeded", "The bucket's quota is exceeded; nothing was stored.")


def exceeded(limits: dict[str, int], objects: int, size: int) -> str:
    """The hard limit that so many objects of `size` bytes together are over; empty when they are over none."""
    if limits["blockSize"] != -1 and size > limits["blockSize"] * GB:
        return "blockSize"
    if limits["blockSizeInCount"] != -1 and objects > limits["blockSizeInCount"]:
        return "blockSizeInCount"
    return ""


def quota_of(bucket: Bucket) -> dict[str, int]:
    """The bucket's limits, -1 for none."""
    kept = bucket.attributes.get(QUOTA) or {}
    assert isinstance(kept, dict)
    return {name: int(kept.get(name, -1)) for name in LIMITS}


def is_locked(bucket: Bucket) -> bool:
    return bool(bucket.attributes.get(LOCKED))


def policy_of(bucket: Bucket) -> dict[str, Any]:
    """The bucket's policy, {} for none."""
    kept = bucket.attributes.get(POLICY) or {}
    assert isinstance(kept, dict)
    return kept


def set_emptying(index: Index, bucket: Bucket, *, on: bool) -> None:
    """Make the bucket read-only while a task empties it, or end that."""
    attributes = {name: value for name, value in bucket.attributes.items() if name != EMPTYING}
    index.update_bucket(bucket.id, attributes=attributes | ({EMPTYING: True} if on else {}))


def _arn(user: User) -> str:
    return f"urn:ecs:iam::{user.namespace}:user/{user.iam_name}"
