"""Expiry of cache objects, by lifecycle rules of the S3 API: the management API has none (facts/objectscale.md 1.6)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale.s3 import EPOCH_KEY

ID = "kvlab-expire-"
"""Rules of this name are kvlab's; others in the bucket are left alone."""

Rule = dict[str, Any]


def wanted_rules(days: int | None, prefixes: Sequence[str]) -> list[Rule]:
    """One rule for each prefix; no rule when `days` is None."""
    if days is None:
        return []
    if days < 1:
        raise KvlabError(f"objects cannot expire after {days} days; give 1 or more")
    for prefix in prefixes:
        if EPOCH_KEY.startswith(prefix):
            raise KvlabError(
                f"prefix {prefix!r} would let the record of the cache epoch ({EPOCH_KEY}) expire before the KV; give "
                'how keys begin: the name of the model with "_" for "/", or obj_ for the slots of MP mode'
            )
    return [
        {
            "ID": f"{ID}{prefix}",
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "Expiration": {"Days": days},
        }
        for prefix in sorted(set(prefixes))
    ]


def rules(s3: Any, bucket: str) -> list[Rule]:
    """All rules of a bucket. Raises botocore's errors."""
    from botocore.exceptions import ClientError

    try:
        found: list[Rule] = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchLifecycleConfiguration":
            return []
        raise
    return found


def merged(found: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """The bucket's rules with kvlab's among them as wanted; what is already so keeps its place and form."""
    kept = [rule for rule in found if not rule.get("ID", "").startswith(ID) or _same_as_any(rule, wanted)]
    return kept + [rule for rule in wanted if not _same_as_any(rule, kept)]


def replace(s3: Any, bucket: str, wanted: Sequence[Rule]) -> None:
    """Make these the bucket's rules. Raises botocore's errors."""
    if not wanted:
        s3.delete_bucket_lifecycle(Bucket=bucket)
        return
    event = "before-sign.s3.PutBucketLifecycleConfiguration"
    # An SDK of today sends a CRC in its place, and ObjectScale wants this one (facts/objectscale.md section 4).
    s3.meta.events.register(event, _add_content_md5)
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(wanted)})


def _same_as_any(rule: Rule, others: Sequence[Rule]) -> bool:
    return any(_meaning(rule) == _meaning(other) for other in others)


def _meaning(rule: Rule) -> tuple[Any, ...]:
    """What a rule says, whether its prefix stands in a filter or, in the old form, beside it."""
    prefix = rule.get("Filter", {}).get("Prefix", rule.get("Prefix", ""))
    return rule.get("ID"), rule.get("Status"), prefix, rule.get("Expiration", {}).get("Days")


def _add_content_md5(request: Any, **_: Any) -> None:
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
