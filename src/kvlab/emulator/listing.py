"""ListObjects, version 1 and 2: prefix, delimiter, paging and encoding-type."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from kvlab.emulator.call import Call, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry, Index
from kvlab.emulator.log import iso
from kvlab.emulator.service import Service
from kvlab.emulator.xml import Node, document

MAX_KEYS = 1000
_PLAIN = re.compile(r"[A-Za-z0-9/_.*~-]*")  # what encoding-type=url leaves as it is


@dataclass
class Page:
    """One page: objects and common prefixes in key order, and the last of either when more follow."""

    entries: list[Entry] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    last: str = ""
    truncated: bool = False


def page(index: Index, bucket: int, *, prefix: str, delimiter: str, after: str | None, limit: int) -> Page:
    """Up to `limit` objects and common prefixes greater than `after`.

    Keys that share a common prefix are skipped by one index look-up, so a page costs what it shows.
    """
    found = Page()
    if limit == 0:
        return found
    beyond = None
    if after is not None and delimiter and after.startswith(prefix):
        rest = after[len(prefix) :]
        if (
            delimiter in rest
            and rest.endswith(delimiter)
            and rest.index(delimiter) == len(rest) - len(delimiter)
        ):
            beyond = after  # the marker is a common prefix that the last page has shown
    while True:
        again = False
        for entry in index.scan(bucket, prefix=prefix, after=after, beyond=beyond):
            if len(found.entries) + len(found.prefixes) >= limit:
                found.truncated = True
                return found
            cut = entry.key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                common = entry.key[: cut + len(delimiter)]
                found.prefixes.append(common)
                found.last = beyond = common
                again = True
                break
            found.entries.append(entry)
            found.last = entry.key
            after = entry.key
        if not again:
            return found


async def list_objects(service: Service, call: Call) -> Reply:
    """Version 1: marker and NextMarker."""
    bucket = service.bucket(call)
    query = call.query
    marker = query.get("marker", "")
    limit, found = _asked(service, bucket, query, marker)
    encode = encoder(query)
    nodes: list[Node] = [
        # Not encoded: botocore decodes the prefix in version 2 only.
        *_head(bucket, query.get("prefix", ""), limit, found),
        ("Marker", encode(marker)),
    ]
    if found.truncated and query.get("delimiter"):
        nodes.append(("NextMarker", encode(found.last)))
    return Reply(body=document("ListBucketResult", nodes + _tail(found, bucket, query, owner=True)))


async def list_objects_v2(service: Service, call: Call) -> Reply:
    """Version 2: continuation-token and start-after."""
    bucket = service.bucket(call)
    query = call.query
    after = query.get("start-after", "")
    token = query.get("continuation-token")
    limit, found = _asked(service, bucket, query, after if token is None else key_of(token))
    encode = encoder(query)
    nodes: list[Node] = [
        *_head(bucket, encode(query.get("prefix", "")), limit, found),
        ("KeyCount", len(found.entries) + len(found.prefixes)),
    ]
    if token is not None:
        nodes.append(("ContinuationToken", token))
    if after:
        nodes.append(("StartAfter", encode(after)))
    if found.truncated:
        nodes.append(("NextContinuationToken", token_of(found.last)))
    owner = query.get("fetch-owner") == "true"
    return Reply(body=document("ListBucketResult", nodes + _tail(found, bucket, query, owner=owner)))


async def list_versions(service: Service, call: Call) -> Reply:
    """Every object as its one version, `null`: what S3 says of a bucket that never had versioning."""
    bucket = service.bucket(call)
    query = call.query
    marker = query.get("key-marker", "")
    limit, found = _asked(service, bucket, query, marker)
    encode = encoder(query)
    nodes: list[Node] = [
        *_head(bucket, encode(query.get("prefix", "")), limit, found),
        ("KeyMarker", encode(marker)),
        ("VersionIdMarker", query.get("version-id-marker", "")),
    ]
    if found.truncated:
        nodes += [("NextKeyMarker", encode(found.last)), ("NextVersionIdMarker", "null")]
    for name, content in _tail(found, bucket, query, owner=True):
        if name == "Contents" and not isinstance(content, (str, int)):
            nodes.append(("Version", [*content, ("VersionId", "null"), ("IsLatest", "true")]))
        else:
            nodes.append((name, content))
    return Reply(body=document("ListVersionsResult", nodes))


def _asked(service: Service, bucket: Bucket, query: dict[str, str], after: str) -> tuple[int, Page]:
    """The page size and the page that the query asks for, from behind `after` on."""
    limit = max_keys(query)
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    found = page(
        service.index, bucket.id, prefix=prefix, delimiter=delimiter, after=after or None, limit=limit
    )
    return limit, found


def _head(bucket: Bucket, prefix: str, limit: int, found: Page) -> list[Node]:
    return [
        ("Name", bucket.name),
        ("Prefix", prefix),
        ("MaxKeys", limit),
        ("IsTruncated", "true" if found.truncated else "false"),
    ]


def _tail(found: Page, bucket: Bucket, query: dict[str, str], *, owner: bool) -> list[Node]:
    encode = encoder(query)
    nodes: list[Node] = []
    if query.get("delimiter"):
        nodes.append(("Delimiter", encode(query["delimiter"])))
    if "encoding-type" in query:
        nodes.append(("EncodingType", "url"))
    for entry in found.entries:
        contents: list[Node] = [
            ("Key", encode(entry.key)),
            ("LastModified", iso(entry.modified)),
            ("ETag", f'"{entry.etag}"'),
            ("Size", entry.size),
        ]
        if owner:
            contents.append(("Owner", [("ID", bucket.owner), ("DisplayName", bucket.owner)]))
        contents.append(("StorageClass", "STANDARD"))
        nodes.append(("Contents", contents))
    nodes += [("CommonPrefixes", [("Prefix", encode(p))]) for p in found.prefixes]
    return nodes


def encoder(query: dict[str, str]) -> Callable[[str], str]:
    """What encoding-type makes of a key."""
    kind = query.get("encoding-type")
    if kind not in (None, "url"):
        raise S3Error(
            "InvalidArgument", "Invalid Encoding Method specified in Request", ArgumentName="encoding-type"
        )
    return _url if kind else str


def _url(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else quote(key, safe="/-_.*~")


def max_keys(
    query: dict[str, str], name: str = "max-keys", *, most: int = MAX_KEYS, default: int = MAX_KEYS
) -> int:
    """A number in the query, such as the page size: at most `most`, `default` when it is not given."""
    text = query.get(name, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 31:
        raise S3Error(
            "InvalidArgument", f"Provided {name} not an integer or within integer range", ArgumentName=name
        )
    return min(value, most)


def token_of(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def key_of(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect") from None
