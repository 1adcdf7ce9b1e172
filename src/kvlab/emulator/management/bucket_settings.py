"""What is changed on a bucket that is there: owner, quota, retention, outage, tags, lock, policy, versioning, acl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlab.emulator import access, policies
from kvlab.emulator.index import Bucket
from kvlab.emulator.management import buckets, limits
from kvlab.emulator.management.ask import Answer, Ask, flag, number, tag_pairs, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.retention import PERIOD


def _set(ask: Ask, bucket: Bucket, **attributes: object) -> Answer:
    ask.array.service.index.update_bucket(bucket.id, attributes=bucket.attributes | attributes)
    return Answer()


def change_owner(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    owner = buckets.owner_in(ask, bucket.namespace, text(ask.body, "new_owner"))
    ask.array.service.index.update_bucket(bucket.id, owner=owner)
    return Answer()


def read_quota(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    place = {"bucketname": bucket.name, "namespace": bucket.namespace}
    return Answer(place | access.quota_of(bucket), "bucket_quota_details")


def update_quota(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    wanted = limits.given(ask.body, complete=True)
    limits.check_use(wanted, *ask.array.service.index.usage(bucket.id))
    return _set(ask, bucket, **{access.QUOTA: wanted})


def remove_quota(ask: Ask) -> Answer:
    return _set(ask, buckets.find(ask), **{access.QUOTA: None})


def read_retention(ask: Ask) -> Answer:
    period = int(str(buckets.find(ask).attributes.get(PERIOD) or 0))
    return Answer({"period": period}, "bucket_retention")


def update_retention(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    number(ask.body, "period")
    return _set(ask, bucket, **{PERIOD: str(buckets.period(ask.body, "period"))})


def update_autocommit(ask: Ask) -> Answer:
    bucket, period = buckets.find(ask), number(ask.body, "autocommit")
    if period < 0:
        raise ApiError(1008, "autocommit must be a number of seconds")
    return _set(ask, bucket, auto_commit_period=period)


def update_stale(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    allowed = flag(ask.body, "is_stale_allowed")
    read_only = flag(ask.body, "is_tso_read_only", bool(bucket.attributes.get("is_tso_read_only")))
    if read_only and not allowed:
        raise ApiError(1008, "is_tso_read_only needs is_stale_allowed")
    return _set(ask, bucket, **{buckets.STALE: str(allowed).lower(), "is_tso_read_only": read_only})


def update_audit_expiration(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    return _set(ask, bucket, audit_delete_expiration=number(ask.query, "expiration"))


def add_tags(ask: Ask) -> Answer:
    """New tags beside those that are there."""
    bucket, wanted = buckets.find(ask), tag_pairs(ask.body, "TagSet", "Key", "Value")
    have = buckets.tags_of(bucket)
    for key in wanted:
        if key in have:
            raise ApiError(1015, f"The bucket {bucket.name} already has a tag {key}")
    return _set(ask, bucket, tags=buckets.checked_tags(have | wanted))


def update_tags(ask: Ask) -> Answer:
    """New values of tags that are all there."""
    bucket, wanted = buckets.find(ask), tag_pairs(ask.body, "TagSet", "Key", "Value")
    _need(bucket, wanted)
    return _set(ask, bucket, tags=buckets.tags_of(bucket) | wanted)


def remove_tags(ask: Ask) -> Answer:
    bucket, gone = buckets.find(ask), tag_pairs(ask.body, "TagSet", "Key", "Value")
    _need(bucket, gone)
    return _set(ask, bucket, tags={k: v for k, v in buckets.tags_of(bucket).items() if k not in gone})


def _need(bucket: Bucket, tags: Mapping[str, str]) -> None:
    for key in tags:
        if key not in buckets.tags_of(bucket):
            raise not_found(key)


def read_lock(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    return Answer({"bucket_name": bucket.name, "isLocked": access.is_locked(bucket)}, "bucket_lock")


def update_lock(ask: Ask) -> Answer:
    wanted = flag(ask.place, "locked")
    return _set(ask, buckets.find(ask), **{access.LOCKED: wanted})


def read_policy(ask: Ask) -> Answer:
    return Answer(access.policy_of(buckets.find(ask)), "policy")


def update_policy(ask: Ask) -> Answer:
    bucket = buckets.find(ask)
    try:
        policies.check(ask.body, principal=True)
    except ValueError as error:
        raise ApiError(1013, f"The policy is not valid: {error}") from None
    return _set(ask, bucket, **{access.POLICY: ask.body})


def remove_policy(ask: Ask) -> Answer:
    return _set(ask, buckets.find(ask), **{access.POLICY: None})


def read_versioning(ask: Ask) -> Answer:
    buckets.find(ask)
    return Answer({"Status": "Off"}, "VersioningConfiguration")


def update_versioning(ask: Ask) -> Answer:
    """The emulated S3 has no versions: turning them on is refused, Suspended is what it is already."""
    buckets.find(ask)
    wanted = text(ask.body, "Status")
    if wanted not in ("Enabled", "Suspended"):
        raise ApiError(1008, "Status must be Enabled or Suspended")
    if wanted == "Enabled":
        raise ApiError(1007, "Versioning is not supported by the emulated array")
    return Answer()


def read_acl(ask: Ask) -> Answer:
    """The owner alone; other ACLs are not emulated, policies are."""
    bucket = buckets.find(ask)
    grant: dict[str, Any] = {"user": bucket.owner, "permission": ["full_control"]}
    acl = {"owner": bucket.owner, "user_acl": [grant], "group_acl": [], "customgroup_acl": []}
    return Answer({"bucket": bucket.name, "namespace": bucket.namespace, "acl": acl}, "bucket_acl")
