"""Signature Version 4 of headers. botocore's own signer computes; this module only reads and compares."""

from __future__ import annotations

import datetime
import functools
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from botocore.auth import S3SigV4Auth
from botocore.credentials import Credentials

from kvlab.emulator.errors import S3Error
from kvlab.emulator.users import User, UserStore

MAX_SKEW_S = 900  # AWS and ECS refuse a request whose date is more than 15 minutes away
_DERIVED_KEYS = 16  # four a day; days change
_ALGORITHM = "AWS4-HMAC-SHA256"
_TIMESTAMP = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z", re.ASCII)
_HEX64 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Authorization:
    """An Authorization header, taken apart."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    signature: str


@dataclass(frozen=True)
class Verified:
    """A request whose signature is right: who sent it, and what signs its chunks."""

    user: User
    authorization: Authorization
    signer: Signer
    timestamp: str

    def chunk_signature(self, string_to_sign: str) -> str:
        """Sign a chunk's string with the request's scope (lower-case hex)."""
        return self.signer.sign_text(string_to_sign, self.timestamp)

    @property
    def scope(self) -> str:
        a = self.authorization
        return f"{a.date}/{a.region}/{a.service}/aws4_request"


class SignedHeaders:
    """The headers that the client signed, in the shape that botocore's signer reads them."""

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

    def sign_text(self, text: str, timestamp: str) -> str:
        """Lower-case hex signature of a ready string to sign."""
        return str(self.signature(text, SimpleNamespace(context={"timestamp": timestamp})))


@functools.lru_cache(maxsize=256)
def _signer(access_key: str, secret: str, region: str) -> Signer:
    return Signer(Credentials(access_key, secret), "s3", region)


def parse_authorization(text: str) -> Authorization:
    """Split `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`; S3Error for anything else."""
    algorithm, _, rest = text.strip().partition(" ")
    if algorithm != _ALGORITHM:
        raise S3Error("InvalidRequest", f"The authorization mechanism is not supported; use {_ALGORITHM}.")
    fields: dict[str, str] = {}
    for part in rest.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in fields:
            raise _malformed("it is not a list of name=value")
        fields[name] = value
    if set(fields) != {"Credential", "SignedHeaders", "Signature"}:
        raise _malformed("it needs Credential, SignedHeaders and Signature")
    credential = fields["Credential"].rsplit("/", 4)
    if len(credential) != 5 or credential[4] != "aws4_request" or not all(credential):
        raise _malformed("Credential must be <key>/<date>/<region>/<service>/aws4_request")
    signed = tuple(fields["SignedHeaders"].split(";"))
    if list(signed) != sorted(set(signed)) or any(s != s.lower() or not s for s in signed):
        raise _malformed("SignedHeaders must be distinct, lower case and sorted")
    if not _HEX64.fullmatch(fields["Signature"]):
        raise _malformed("Signature must be 64 hexadecimal digits")
    access_key, date, region, service, _terminator = credential
    return Authorization(access_key, date, region, service, signed, fields["Signature"])


def verify(
    users: UserStore,
    *,
    method: str,
    raw_path: str,
    raw_query: str,
    headers: Iterable[tuple[str, str]],
    now: datetime.datetime,
    region: str | None = None,
) -> Verified:
    """Check who sent the request. `raw_path` and `raw_query` are as on the wire; `region` None accepts any.

    Raises S3Error with S3's code: AccessDenied (no or incomplete signature), AuthorizationHeaderMalformed,
    InvalidAccessKeyId, RequestTimeTooSkewed, SignatureDoesNotMatch.
    """
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value)
    if "authorization" not in by_name:
        raise S3Error("AccessDenied", "Anonymous access is not allowed; sign the request.")
    authorization = parse_authorization(by_name["authorization"][0])
    timestamp = _timestamp(by_name, authorization, now)
    if authorization.service != "s3":
        raise _malformed(f"the service in Credential is {authorization.service}, not s3")
    if region is not None and authorization.region != region:
        raise _malformed(f"the region '{authorization.region}' is wrong; expecting '{region}'", Region=region)
    _all_signed(by_name, authorization)
    user = users.get(authorization.access_key)
    if user is None:
        raise S3Error("InvalidAccessKeyId", "The access key ID you provided does not exist in our records.")
    request = _request(method, raw_path, raw_query, by_name, authorization, timestamp)
    for secret in user.secret_keys:
        signer = _signer(user.access_key, secret, authorization.region)
        try:
            text = signer.string_to_sign(request, signer.canonical_request(request))
        except UnicodeError:
            raise S3Error("InvalidRequest", "A signed header is not valid UTF-8.") from None
        if hmac.compare_digest(signer.signature(text, request), authorization.signature):
            if user.locked:
                raise S3Error("AccessDenied", "The user is locked.")
            return Verified(user, authorization, signer, timestamp)
    raise S3Error(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided."
        " Check your secret key and signing method.",
    )


def _request(
    method: str,
    raw_path: str,
    raw_query: str,
    by_name: dict[str, list[str]],
    authorization: Authorization,
    timestamp: str,
) -> SimpleNamespace:
    signed = SignedHeaders({n: by_name[n] for n in authorization.signed_headers if n in by_name})
    if "x-amz-content-sha256" not in authorization.signed_headers:
        raise S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256.")
    # The signer takes the path as it stands, so bring the wire form to the canonical one: decode, encode.
    path = quote(unquote_to_bytes(raw_path), safe="/-_.~")
    params = parse_qsl(raw_query, keep_blank_values=True, errors="surrogateescape") if raw_query else []
    return SimpleNamespace(
        method=method,
        url=f"http://signed.invalid{path}",
        params=params,
        headers=signed,
        body=b"",
        context={"timestamp": timestamp},
    )


def _timestamp(by_name: dict[str, list[str]], authorization: Authorization, now: datetime.datetime) -> str:
    text = by_name.get("x-amz-date", [""])[0]
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise S3Error("AccessDenied", "The request needs a valid x-amz-date header.")
    try:
        year, month, day, hour, minute, second = map(int, match.groups())
        sent = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        raise S3Error("AccessDenied", "The request needs a valid x-amz-date header.") from None
    if abs((now - sent).total_seconds()) > MAX_SKEW_S:
        raise S3Error(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            RequestTime=text,
            ServerTime=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            MaxAllowedSkewMilliseconds=str(MAX_SKEW_S * 1000),
        )
    if authorization.date != text[:8]:
        raise _malformed("the date in Credential is not the date of the request")
    return text


def _all_signed(by_name: dict[str, list[str]], authorization: Authorization) -> None:
    """S3 refuses a meaningful header that nobody signed; so a descriptor cannot be slipped in."""
    signed = set(authorization.signed_headers)
    missing = [
        n for n in by_name if n not in signed and (n.startswith("x-amz-") or n in ("host", "x-rdma-info"))
    ]
    if missing:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed.",
            HeadersNotSigned=",".join(sorted(missing)),
        )


def _malformed(why: str, **extra: str) -> S3Error:
    return S3Error("AuthorizationHeaderMalformed", f"The authorization header is malformed: {why}.", **extra)
