"""Signature Version 4. botocore's own signer computes; this module only compares and judges times and users."""

from __future__ import annotations

import functools
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from urllib.parse import quote, unquote_to_bytes

from botocore.auth import UNSIGNED_PAYLOAD, S3SigV4Auth
from botocore.credentials import Credentials

from kvlab.emulator.authorization import (
    SIGNATURE,
    Authorization,
    Presigned,
    instant,
    malformed,
    parse_authorization,
    parse_presigned,
    timestamp_of,
)
from kvlab.emulator.errors import S3Error
from kvlab.emulator.log import iso
from kvlab.emulator.users import User, UserStore

MAX_SKEW_S = 900  # AWS and ECS refuse a request whose date is more than 15 minutes away
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.~-]*")  # the same decoded and encoded
_DERIVED_KEYS = 16  # four a day; days change


@dataclass(frozen=True, slots=True)
class Verified:
    """A request whose signature is right: who sent it, what it says of its body, and what signs its chunks."""

    user: User
    authorization: Authorization
    signer: Signer
    timestamp: str
    payload: str  # as in x-amz-content-sha256

    def chunk_signature(self, string_to_sign: str) -> str:
        """Sign a chunk's string with the request's scope (lower-case hex)."""
        return self.signer.sign_text(string_to_sign, self.timestamp)


class SignedHeaders:
    """The headers that the client signed, in the shape that botocore's signer reads them. Names are sorted."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def get_all(self, name: str) -> list[str]:
        """Every value of the header, in the order of the request."""
        return self._values[name]


class Signer(S3SigV4Auth):  # type: ignore[misc]
    """botocore's signer, told by the client which headers are signed instead of choosing them itself."""

    def __init__(self, credentials: Credentials, service: str, region: str) -> None:
        super().__init__(credentials, service, region)
        self._derived: dict[tuple[bytes, str], bytes] = {}

    def _sign(self, key: bytes, msg: str, hex: bool = False) -> bytes | str:
        """The keys derived for a day, region and service are the same for every request: keep them."""
        if hex:
            text: str = super()._sign(key, msg, hex=True)
            return text
        found = self._derived.get((key, msg))
        if found is None:
            if len(self._derived) > _DERIVED_KEYS:
                self._derived.clear()
            found = self._derived[key, msg] = super()._sign(key, msg)
        return found

    def headers_to_sign(self, request: SimpleNamespace) -> SignedHeaders:
        headers: SignedHeaders = request.headers
        return headers

    def canonical_headers(self, headers_to_sign: SignedHeaders) -> str:
        """As botocore's, for names that are sorted and values that are text: a third of its time."""
        lines = []
        for name in headers_to_sign:
            values = headers_to_sign.get_all(name)
            value = values[0] if len(values) == 1 else ",".join([v.strip() for v in values])
            lines.append(f"{name}:{' '.join(value.split())}")
        return "\n".join(lines)

    def signed_headers(self, headers_to_sign: SignedHeaders) -> str:
        return ";".join(headers_to_sign)

    def payload(self, request: SimpleNamespace) -> str:
        """Asked only where x-amz-content-sha256 is no signed header, which is in presigned URLs."""
        payload: str = request.payload
        return payload

    def sign_text(self, text: str, timestamp: str) -> str:
        """Lower-case hex signature of a ready string to sign."""
        return str(self.signature(text, SimpleNamespace(context={"timestamp": timestamp})))


@functools.lru_cache(maxsize=256)
def _signer(access_key: str, secret: str, region: str) -> Signer:
    return Signer(Credentials(access_key, secret), "s3", region)


def verify(
    users: UserStore,
    *,
    method: str,
    raw_path: str,
    query: Sequence[tuple[str, str]],
    headers: Mapping[str, list[str]],
    now: float,
    region: str | None = None,
) -> Verified:
    """Check who sent the request. `raw_path` is as on the wire, header names are lower case, `now` is Unix time.

    `region` None accepts any. Raises S3Error with S3's code: AccessDenied (no or incomplete signature, expired),
    AuthorizationHeaderMalformed, AuthorizationQueryParametersError, InvalidAccessKeyId, RequestTimeTooSkewed,
    SignatureDoesNotMatch.
    """
    presigned = parse_presigned(query) if query else None
    if presigned is None:
        authorization, timestamp, payload = _from_headers(headers, now)
    else:
        authorization, timestamp, payload = _from_query(presigned, headers, now)
        query = [pair for pair in query if pair[0] != SIGNATURE]
    if authorization.date != timestamp[:8]:
        raise malformed("the date in the credential is not the date of the request")
    if authorization.service != "s3":
        raise malformed(f"the service in the credential is {authorization.service}, not s3")
    if region is not None and authorization.region != region:
        raise malformed(f"the region '{authorization.region}' is wrong; expecting '{region}'", Region=region)
    _all_signed(headers, authorization)
    user = users.get(authorization.access_key)
    if user is None:
        raise S3Error("InvalidAccessKeyId", "The access key ID you provided does not exist in our records.")
    request = SimpleNamespace(
        method=method,
        url=f"http://signed.invalid{_canonical_path(raw_path)}",
        params=query,
        headers=SignedHeaders({n: headers[n] for n in authorization.signed_headers if n in headers}),
        payload=payload,
        context={"timestamp": timestamp},
    )
    for secret in user.secret_keys:
        signer = _signer(user.access_key, secret, authorization.region)
        try:
            text = signer.string_to_sign(request, signer.canonical_request(request))
        except UnicodeError:
            raise S3Error("InvalidRequest", "A signed header is not valid UTF-8.") from None
        if hmac.compare_digest(signer.signature(text, request), authorization.signature):
            if user.locked:
                raise S3Error("AccessDenied", "The user is locked.")
            return Verified(user, authorization, signer, timestamp, payload)
    raise S3Error(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided."
        " Check your secret key and signing method.",
    )


def _canonical_path(raw: str) -> str:
    """The signer takes the path as it stands, so bring the wire form to the canonical one: decode, encode."""
    return raw if _PLAIN_PATH.fullmatch(raw) else quote(unquote_to_bytes(raw), safe="/-_.~")


def _from_headers(headers: Mapping[str, list[str]], now: float) -> tuple[Authorization, str, str]:
    """(claim, timestamp, payload) of a request signed in its headers, sent within the allowed time."""
    if "authorization" not in headers:
        raise S3Error("AccessDenied", "Anonymous access is not allowed; sign the request.")
    authorization = parse_authorization(headers["authorization"][0])
    timestamp = (
        headers["x-amz-date"][0] if "x-amz-date" in headers else timestamp_of(headers.get("date", [""])[0])
    )
    sent = instant(timestamp)
    if sent is None:
        raise S3Error("AccessDenied", "The request needs a valid x-amz-date or Date header.")
    if abs(now - sent) > MAX_SKEW_S:
        raise S3Error(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            RequestTime=timestamp,
            ServerTime=iso(now),
            MaxAllowedSkewMilliseconds=str(MAX_SKEW_S * 1000),
        )
    if "x-amz-content-sha256" not in headers:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256.")
    return authorization, timestamp, headers["x-amz-content-sha256"][0]


def _from_query(
    presigned: Presigned, headers: Mapping[str, list[str]], now: float
) -> tuple[Authorization, str, str]:
    """(claim, timestamp, payload) of a presigned URL that is valid at this time."""
    if "authorization" in headers:
        raise S3Error("InvalidRequest", "Only one way of signing is allowed: the header or the query.")
    sent = instant(presigned.timestamp)
    assert sent is not None
    if sent > now + MAX_SKEW_S:
        raise S3Error("AccessDenied", "The request is not valid yet.", ServerTime=iso(now))
    if now > sent + presigned.expires:
        raise S3Error(
            "AccessDenied",
            "The request has expired.",
            Expires=iso(sent + presigned.expires),
            ServerTime=iso(now),
        )
    payload = presigned.payload or headers.get("x-amz-content-sha256", [UNSIGNED_PAYLOAD])[0]
    return presigned.authorization, presigned.timestamp, payload


def _all_signed(headers: Mapping[str, list[str]], authorization: Authorization) -> None:
    """S3 refuses a meaningful header that nobody signed; so a descriptor cannot be slipped in."""
    unsigned = headers.keys() - authorization.signed_headers
    missing = [n for n in unsigned if n.startswith("x-amz-") or n in ("host", "x-rdma-info")]
    if missing:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed.",
            HeadersNotSigned=",".join(sorted(missing)),
        )
