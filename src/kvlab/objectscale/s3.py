"""S3 towards ObjectScale through boto3, with the settings that ObjectScale needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kvlab.errors import KvlabError

EPOCH_KEY = ".kvlab/epoch.json"
"""Where a bucket's cache epoch stands. No key of LMCache holds a slash (it writes `_` for it)."""


CONNECTIONS = 16
"""Requests that one client may have under way at once."""


@dataclass(frozen=True)
class StoredObject:
    """One object of a listing; `size` in bytes."""

    key: str
    size: int
    modified: datetime


def client(
    endpoint: str,
    access_key: str,
    secret_key: str,
    region: str = "us-east-1",
    *,
    checksums: str = "when_required",
    verify: bool | str | None = None,
) -> Any:
    """A boto3 S3 client for ObjectScale: path style, and checksums only where an operation requires them.

    SDKs since 2025 add CRC trailers by default (`checksums="when_supported"`), which ObjectScale answers with
    XAmzContentSHA256Mismatch (facts/objectscale.md section 4). The region is ignored by ObjectScale but must be named
    to sign. `verify` is a CA bundle to trust, or False for no verification; None leaves it to the environment.
    """
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=region,
        verify=verify,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            request_checksum_calculation=checksums,
            response_checksum_validation=checksums,
            retries={"max_attempts": 3, "mode": "standard"},
            connect_timeout=5,
            max_pool_connections=CONNECTIONS,
        ),
    )


def explain(error: Exception, endpoint: str) -> KvlabError:
    """The sentence for a failed S3 call: what happened and what to do."""
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, EndpointConnectionError):
        return KvlabError(
            f"nothing answers at {endpoint}; check that the object store is up and the address is right"
        )
    if isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "unknown")
        what = {
            "InvalidAccessKeyId": "does not know the access key; check the user, or run ./lab up to make it",
            "SignatureDoesNotMatch": "refuses the secret key; check the secrets file, or rotate the key",
            "RequestTimeTooSkewed": "refuses the time of this host; set its clock",
            "AccessDenied": "denies access; check the owner and the policy of the bucket",
            "NoSuchBucket": "has no such bucket; run ./lab up to make it",
        }.get(code, f"answers {code}: {error.response.get('Error', {}).get('Message', '')}")
        return KvlabError(f"the object store at {endpoint} {what}")
    return KvlabError(f"the object store at {endpoint} cannot be used: {error}")


def bucket_exists(s3: Any, bucket: str) -> bool:
    """Whether the bucket exists and is ours. Raises botocore's ClientError for anything but absence."""
    from botocore.exceptions import ClientError

    try:
        s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 404:
            return False
        if status == 403:
            # A reply to HEAD has no body and so no reason; the same question by GET has one.
            s3.list_objects_v2(Bucket=bucket, MaxKeys=1)
        raise
    return True


def objects(s3: Any, bucket: str, prefix: str = "") -> Iterator[StoredObject]:
    """Every object of a bucket whose key begins with the prefix, a page of the listing at a time."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            yield StoredObject(item["Key"], int(item["Size"]), item["LastModified"])


def keys(s3: Any, bucket: str) -> list[tuple[str, int]]:
    """Key and size in bytes of every object of a bucket."""
    return [(found.key, found.size) for found in objects(s3, bucket)]


def empty(s3: Any, bucket: str) -> int:
    """Delete every object of a bucket, one by one (ObjectScale refuses DeleteObjects without Content-MD5)."""
    found = keys(s3, bucket)
    for key, _ in found:
        s3.delete_object(Bucket=bucket, Key=key)
    return len(found)


def kv_keys(s3: Any, bucket: str) -> list[tuple[str, int]]:
    """Key and size in bytes of every object but the record of the epoch."""
    return [(key, size) for key, size in keys(s3, bucket) if key != EPOCH_KEY]


def epoch_of(s3: Any, bucket: str) -> tuple[str | None, bool]:
    """The epoch recorded in the bucket (None for none), and whether it holds any other object.

    Raises botocore's errors, and KvlabError when the record is not one.
    """
    listed = s3.list_objects_v2(Bucket=bucket, MaxKeys=2).get("Contents", [])
    holds_kv = any(item["Key"] != EPOCH_KEY for item in listed)
    try:
        content = s3.get_object(Bucket=bucket, Key=EPOCH_KEY)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None, holds_kv
    try:
        return str(json.loads(content)["epoch"]), holds_kv
    except (ValueError, KeyError, TypeError):
        raise KvlabError(
            f"object {EPOCH_KEY} of bucket {bucket} is not a record of an epoch; use another bucket or empty this one."
        ) from None


def record_epoch(s3: Any, bucket: str, epoch: str) -> None:
    """Write the epoch of a bucket that holds no KV."""
    content = json.dumps({"epoch": epoch, "by": "kvlab"}).encode()
    s3.put_object(Bucket=bucket, Key=EPOCH_KEY, Body=content, ContentType="application/json")
