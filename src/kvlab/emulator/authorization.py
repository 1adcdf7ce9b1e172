"""What a request says of its own signature, in the Authorization header or in a presigned URL. Nothing is verified."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeAlias

from kvlab.emulator.errors import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
MAX_EXPIRES_S = 604_800  # seven days, S3's limit of a presigned URL
_TIMESTAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_HEX64 = re.compile(r"[0-9a-f]{64}")
_NO_SIGNATURE = "Signature must be 64 hexadecimal digits"
_NEEDED = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders")
SIGNATURE = "X-Amz-Signature"
PAYLOAD = "X-Amz-Content-Sha256"
PRESIGNED = frozenset((*_NEEDED, SIGNATURE, PAYLOAD))  # query parameters that belong to the signature


# Access key, date, region, service, signed headers.
Claim: TypeAlias = tuple[str, str, str, str, tuple[str, ...]]


class Authorization(NamedTuple):
    """A claim to be checked: who signed which headers, and the signature."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


class Presigned(NamedTuple):
    """The claim of a URL: valid from `timestamp` for `expires` seconds, `payload` as in x-amz-content-sha256."""

    authorization: Authorization
    timestamp: str
    expires: int
    payload: str | None


def parse_authorization(text: str) -> Authorization:
    """Split `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`; S3Error for anything else."""
    before, name, after = text.rpartition("Signature=")
    signature = after[:64] if name else ""
    claim = _header_claim(before + name + after[len(signature) :])
    if not _HEX64.fullmatch(signature):
        raise malformed(_NO_SIGNATURE)
    return Authorization(*claim, signature)


@functools.lru_cache(maxsize=256)
def _header_claim(text: str) -> Claim:
    """The header without its signature, which is all that differs between a client's requests."""
    algorithm, _, rest = text.strip().partition(" ")
    if algorithm != ALGORITHM:
        raise S3Error("InvalidRequest", f"The authorization mechanism is not supported; use {ALGORITHM}.")
    fields: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in fields:
            raise malformed("it is not a list of name=value")
        fields[name] = value
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise malformed("it needs Credential, SignedHeaders and Signature")
    if fields["Signature"]:
        raise malformed(_NO_SIGNATURE)
    try:
        return _claim(fields["Credential"], fields["SignedHeaders"])
    except ValueError as error:
        raise malformed(str(error)) from None


def parse_presigned(query: Sequence[tuple[str, str]]) -> Presigned | None:
    """The claim in a URL's query; None when it makes none, AuthorizationQueryParametersError for half a claim."""
    pairs = [pair for pair in query if pair[0] in PRESIGNED]
    if not pairs:
        return None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise _query_error("a parameter of the signature comes twice")
    missing = [name for name in (*_NEEDED, SIGNATURE) if name not in fields]
    if missing:
        raise _query_error(f"the query has no {', '.join(missing)}")
    if fields["X-Amz-Algorithm"] != ALGORITHM:
        raise _query_error(f"X-Amz-Algorithm must be {ALGORITHM}")
    expires = fields["X-Amz-Expires"]
    if not re.fullmatch("[0-9]{1,6}", expires) or not 1 <= int(expires) <= MAX_EXPIRES_S:
        raise _query_error(f"X-Amz-Expires must be a number of seconds from 1 to {MAX_EXPIRES_S}")
    if instant(fields["X-Amz-Date"]) is None:
        raise _query_error("X-Amz-Date must be of the form 20261201T000000Z")
    if not _HEX64.fullmatch(fields[SIGNATURE]):
        raise _query_error(f"{SIGNATURE} must be 64 hexadecimal digits")
    try:
        claim = _claim(fields["X-Amz-Credential"], fields["X-Amz-SignedHeaders"])
    except ValueError as error:
        raise _query_error(str(error)) from None
    return Presigned(
        Authorization(*claim, fields[SIGNATURE]), fields["X-Amz-Date"], int(expires), fields.get(PAYLOAD)
    )


@functools.lru_cache(maxsize=64)
def instant(text: str) -> float | None:
    """Unix time of `20261201T000000Z`; None for anything else."""
    if not _TIMESTAMP.fullmatch(text):
        return None
    try:
        return datetime.datetime.strptime(f"{text[:-1]}+0000", "%Y%m%dT%H%M%S%z").timestamp()
    except ValueError:
        return None


def timestamp_of(date: str) -> str:
    """A Date header as x-amz-date would have it: a client may send that instead. "" when it is no date."""
    try:
        return parsedate_to_datetime(date).astimezone(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    except ValueError:
        return ""


def _claim(credential: str, signed_headers: str) -> Claim:
    """ValueError with the reason when one of them is not as it must be."""
    parts = credential.rsplit("/", 4)
    if len(parts) != 5 or parts[4] != "aws4_request" or not all(parts):
        raise ValueError("the credential must be <key>/<date>/<region>/<service>/aws4_request")
    names = tuple(signed_headers.split(";"))
    if list(names) != sorted(set(names)) or any(n != n.lower() or not n for n in names):
        raise ValueError("the signed headers must be distinct, lower case and sorted")
    access_key, date, region, service, _terminator = parts
    return access_key, date, region, service, names


def malformed(why: str, **extra: str) -> S3Error:
    """The error for an Authorization header, or a credential's scope, that is not as it must be."""
    return S3Error("AuthorizationHeaderMalformed", f"The authorization header is malformed: {why}.", **extra)


def _query_error(why: str) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", f"The signature in the query is malformed: {why}.")
