"""Operations on buckets: list, create, head, location, delete."""

from __future__ import annotations

import ipaddress
import re
import sqlite3

from kvlab.emulator import access
from kvlab.emulator.call import Call, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.listing import key_of, max_keys, token_of
from kvlab.emulator.log import iso
from kvlab.emulator.retention import PERIOD, checked
from kvlab.emulator.service import Service
from kvlab.emulator.xml import Node, document, parse

_MAX_BUCKETS = 10000
_AWS_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_WIDE_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_EMC_ATTRIBUTES = (
    "x-emc-dataservice-vpool",
    "x-emc-file-system-access-enabled",
    PERIOD,
    "x-emc-is-stale-allowed",
    "x-emc-server-side-encryption-enabled",
    "x-emc-metadata-search",
)


def valid_bucket_name(name: str, *, wide: bool) -> bool:
    """Whether a bucket may have this name; `wide` are ObjectScale's rules, otherwise AWS's."""
    if ".." in name or _is_ipv4(name):
        return False
    if wide:
        return bool(_WIDE_NAME.fullmatch(name)) and name[0] != "." and name[-1] != "."
    return bool(_AWS_NAME.fullmatch(name)) and ".-" not in name and "-." not in name


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


async def list_buckets(service: Service, call: Call) -> Reply:
    """The caller's own buckets, by name; with max-buckets a page at a time."""
    query = call.query
    limit = max_keys(query, "max-buckets", most=_MAX_BUCKETS, default=_MAX_BUCKETS)
    after = key_of(query["continuation-token"]) if "continuation-token" in query else ""
    prefix = query.get("prefix", "")
    owner = access.owner_for(call.who, "ListAllMyBuckets")
    buckets = [
        b
        for b in service.index.buckets(service.namespace(call), owner)
        if b.name > after and b.name.startswith(prefix)
    ]
    shown = buckets[:limit]
    nodes: list[Node] = [
        ("Owner", [("ID", call.user), ("DisplayName", call.user)]),
        ("Buckets", [("Bucket", [("Name", b.name), ("CreationDate", iso(b.created))]) for b in shown]),
    ]
    if len(buckets) > len(shown) and shown:
        nodes.append(("ContinuationToken", token_of(shown[-1].name)))
    return Reply(body=document("ListAllMyBucketsResult", nodes))


async def create_bucket(service: Service, call: Call) -> Reply:
    """Make a bucket for the caller. Its owner may repeat it (200, as on ECS); others get 409."""
    body = await service.document(call, 64 << 10)
    if body.strip():
        parse(body, "CreateBucketConfiguration")
    if not valid_bucket_name(call.bucket, wide=service.dialect.wide_bucket_names):
        raise S3Error("InvalidBucketName", "The specified bucket is not valid.", BucketName=call.bucket)
    namespace, owner = service.namespace(call), access.owner_for(call.who, "CreateBucket")
    attributes: dict[str, object] = {}
    if service.dialect.emc_headers:
        attributes = {n: call.header(n) for n in _EMC_ATTRIBUTES if call.has(n)}
        checked(call.header(PERIOD, "0"))
    try:
        service.index.create_bucket(namespace, call.bucket, owner, attributes)
    except sqlite3.IntegrityError:
        existing = service.index.bucket(namespace, call.bucket)
        if existing is None or existing.owner != owner:
            raise S3Error(
                "BucketAlreadyExists", "The requested bucket name is not available.", BucketName=call.bucket
            ) from None
    return Reply(headers={"Location": f"/{call.bucket}"})


async def head_bucket(service: Service, call: Call) -> Reply:
    service.bucket(call)
    return Reply()


async def bucket_location(service: Service, call: Call) -> Reply:
    """ObjectScale has no regions: an empty LocationConstraint, which clients read as us-east-1."""
    service.bucket(call)
    return Reply(body=document("LocationConstraint", []))


async def delete_bucket(service: Service, call: Call) -> Reply:
    bucket = service.bucket(call)
    if not service.index.is_empty(bucket.id):
        raise S3Error(
            "BucketNotEmpty", "The bucket you tried to delete is not empty.", BucketName=call.bucket
        )
    for upload in service.index.uploads(bucket.id):
        service.end_upload(upload)
    service.index.delete_bucket(bucket.id)
    return Reply(204)
