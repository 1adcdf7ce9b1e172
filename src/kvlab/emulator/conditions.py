"""Range and conditional headers, as RFC 9110 has them and S3 narrows them."""

from __future__ import annotations

import datetime
import re
from email.utils import parsedate_to_datetime

from kvlab.emulator.call import Call
from kvlab.emulator.errors import NotModifiedError, S3Error
from kvlab.emulator.index import Entry

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """(offset, length) of a Range header on an object of `size` bytes; None when the header is to be ignored.

    One range only: `bytes=a-b`, `bytes=a-`, `bytes=-n`. InvalidRange when it lies outside the object.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if not match or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first and last and int(first) > int(last):
        return None
    if not first:
        length = min(int(last), size)
        start = size - length
    else:
        start = int(first)
        length = min(int(last), size - 1) - start + 1 if last else size - start
    if length <= 0:
        raise S3Error(
            "InvalidRange",
            "The requested range is not satisfiable.",
            RangeRequested=text,
            ActualObjectSize=str(size),
        )
    return start, length


def _names(header: str, etag: str) -> bool:
    return header.strip() == "*" or any(e.strip().strip('"') == etag for e in header.split(","))


def _date(text: str) -> float | None:
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def check_read(call: Call, entry: Entry, prefix: str = "") -> None:
    """Conditions of GET and HEAD, or with `prefix` of a copy's source: 412 or NotModifiedError."""
    reading = not prefix
    match = call.header(f"{prefix}If-Match")
    none_match = call.header(f"{prefix}If-None-Match")
    since = _date(call.header(f"{prefix}If-Modified-Since"))
    unmodified = _date(call.header(f"{prefix}If-Unmodified-Since"))
    modified = int(entry.modified)
    if match:
        if not _names(match, entry.etag):
            raise _failed("If-Match")
    elif unmodified is not None and modified > unmodified:
        raise _failed("If-Unmodified-Since")
    if none_match:
        if _names(none_match, entry.etag):
            raise NotModifiedError(entry.etag, entry.modified) if reading else _failed("If-None-Match")
    elif since is not None and modified <= since:
        raise NotModifiedError(entry.etag, entry.modified) if reading else _failed("If-Modified-Since")


def check_write(call: Call, entry: Entry | None) -> None:
    """Conditions of a write: If-None-Match (with *: put if absent) and If-Match (replace this)."""
    match, none_match = call.header("If-Match"), call.header("If-None-Match")
    if none_match and entry is not None and _names(none_match, entry.etag):
        raise _failed("If-None-Match")
    if match:
        if entry is None:
            raise S3Error("NoSuchKey", "The specified key does not exist.", Key=call.key)
        if not _names(match, entry.etag):
            raise _failed("If-Match")


def check_delete(
    entry: Entry, *, etag: str = "", modified: datetime.datetime | None = None, size: int | None = None
) -> None:
    """Conditions of a deletion, those that are given: PreconditionFailed when the object is another."""
    if etag and not _names(etag, entry.etag):
        raise _failed("If-Match")
    if modified is not None and int(modified.timestamp()) != int(entry.modified):
        raise _failed("x-amz-if-match-last-modified-time")
    if size is not None and size != entry.size:
        raise _failed("x-amz-if-match-size")


def _failed(condition: str) -> S3Error:
    return S3Error(
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold.",
        Condition=condition,
    )
