"""Rules for NIXL's OBJ parameters, wherever a file holds them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from kvlab.kvcache import knownkeys
from kvlab.kvcache.lint.document import Document, Path
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean
from kvlab.kvcache.versions import release

_SECRETS = ("access_key", "secret_key", "session_token")
_PLACEHOLDERS = ("your", "changeme", "change_me", "example", "<", "xxxx", "todo")


def is_accelerated(params: Mapping[str, Any]) -> bool:
    """Whether the parameters ask for a vendor's engine, however they spell it."""
    return str(params.get("accelerated", "")).strip().lower() in ("true", "1", "yes", "on")


def check(doc: Document, where: Path, context: Context, endpoints: Any = None) -> Iterator[Finding]:
    """Judge the mapping at `where`; `endpoints` is LMCache's per-rank list, which overrides endpoint_override."""
    params = doc.get(*where)
    if not isinstance(params, dict):
        yield doc.finding(
            "NIX001",
            "error",
            where,
            "nixl_backend_params is not a mapping.",
            "List the parameters, one key each.",
        )
        return
    known = knownkeys.data("nixl-obj")["parameters"]
    yield from strings_only(doc, where)
    for key in params:
        here = (*where, key)
        if key not in known:
            yield doc.finding(
                "NIX002",
                "error",
                here,
                f"NIXL has no parameter {key} and ignores it without a word.{did_you_mean(key, known)}",
                "Correct or remove the key.",
            )
        elif release(context.nixl) < release(known[key]):
            yield doc.finding(
                "NIX022",
                "error",
                here,
                f"NIXL {context.nixl} has no {key} yet ({known[key]} is the first) and ignores it without a word.",
                f"Remove it, or use NIXL {known[key]} or newer.",
            )
    yield from _engine(doc, where, params, context)
    yield from _endpoint(doc, where, params, context, endpoints)
    yield from _credentials(doc, where, params, context)


def strings_only(doc: Document, where: Path) -> Iterator[Finding]:
    """NIXL takes text only, for every back end."""
    for key, value in doc.get(*where).items():
        if not isinstance(value, str):
            kind = "empty" if value is None else f"a {type(value).__name__}"
            yield doc.finding(
                "NIX003",
                "error",
                (*where, key),
                f"{key} is {kind}; NIXL takes strings only, and what is not one fails or is not heeded.",
                f'Write it in quotes, such as {key}: "{str(value).lower()}".',
            )


def _engine(doc: Document, where: Path, params: dict[str, Any], context: Context) -> Iterator[Finding]:
    accelerated = params.get("accelerated")
    needed = knownkeys.data("nixl-obj")["engine_from"]
    if isinstance(accelerated, str) and accelerated not in ("true", "false"):
        yield doc.finding(
            "NIX004",
            "error",
            (*where, "accelerated"),
            f'accelerated is {accelerated!r}; only the exact string "true" switches the engine on.',
            'Write accelerated: "true".',
        )
    if is_accelerated(params):
        if release(context.nixl) < release(needed):
            yield doc.finding(
                "NIX005",
                "error",
                (*where, "accelerated"),
                f"NIXL's published wheels hold no accelerated engine before {needed}, and {context.nixl} is named.",
                f"Use nixl-cu13 {needed} or newer, or a build of your own against cuObject.",
            )
        if "type" not in params:
            yield doc.finding(
                "NIX006",
                "error",
                (*where, "type"),
                "no engine type is named.",
                'Add type: "dell" for ObjectScale.',
            )
        elif params["type"] != "dell":
            yield doc.finding(
                "NIX006",
                "error",
                (*where, "type"),
                f"type {params['type']!r} is no engine of NIXL; the back end will not start.",
                'Write type: "dell" for ObjectScale.',
            )
    elif params.get("type") == "dell":
        yield doc.finding(
            "NIX007",
            "error",
            (*where, "type"),
            'type is dell but accelerated is not "true": the plain HTTP engine is used.',
            'Add accelerated: "true", or remove type.',
        )
    for key in ("req_checksum", "resp_checksum"):
        value = params.get(key)
        if value is not None and value not in ("required", "supported"):
            yield doc.finding(
                "NIX008",
                "error",
                (*where, key),
                f"{key} is {value!r}; it is either required or supported.",
                f'Write {key}: "required".',
            )
        elif value == "supported" or (value is None and key == "req_checksum"):
            hard = is_accelerated(params)
            yield doc.finding(
                "NIX009",
                "error" if hard else "warning",
                (*where, key),
                f"{key} is {'not set' if value is None else 'supported'}: the AWS SDK then adds or expects body "
                + (
                    "checksums, but over RDMA the HTTP body is empty."
                    if hard
                    else "checksums that S3-compatible stores may refuse."
                ),
                f'Write {key}: "required".',
            )
    if params.get("use_virtual_addressing") in (True, "true"):
        yield doc.finding(
            "NIX010",
            "error",
            (*where, "use_virtual_addressing"),
            "virtual addressing puts the bucket into the host name, which an endpoint by address cannot answer.",
            'Write use_virtual_addressing: "false".',
        )
    if params.get("crtMinLimit") is not None:
        yield doc.finding(
            "NIX011",
            "warning",
            (*where, "crtMinLimit"),
            "crtMinLimit switches large objects to the CRT client, which takes another path than the one tested.",
            "Remove it.",
        )


def _endpoint(
    doc: Document, where: Path, params: dict[str, Any], context: Context, endpoints: Any
) -> Iterator[Finding]:
    endpoint = params.get("endpoint_override")
    fallback = (context.env or {}).get("AWS_ENDPOINT_OVERRIDE")
    if endpoint is None and not endpoints and not fallback:
        yield doc.finding(
            "NIX012",
            "error",
            (*where, "endpoint_override"),
            "no endpoint is named, so the SDK goes to Amazon's.",
            "Add endpoint_override: http://ADDRESS:9020 of the object store.",
        )
    if isinstance(endpoint, str):
        yield from check_url(doc, (*where, "endpoint_override"), endpoint, params.get("scheme"))
    carrier = endpoint if endpoint is not None or endpoints else fallback
    if isinstance(carrier, str):
        yield from plain_http(doc, (*where, "endpoint_override"), carrier, has_real_keys(params, context))
    bucket = params.get("bucket")
    if bucket is None and not (context.env or {}).get("AWS_DEFAULT_BUCKET"):
        yield doc.finding(
            "NIX013",
            "error",
            (*where, "bucket"),
            "no bucket is named; the back end does not start, and vLLM serves without a cache.",
            "Add bucket, with the epoch of these weights in its name.",
        )
    scheme = params.get("scheme")
    if scheme is None and isinstance(endpoint, str) and endpoint.startswith("http://"):
        yield doc.finding(
            "NIX014",
            "warning",
            (*where, "scheme"),
            "scheme is not set and its default is https, while the endpoint is http.",
            'Write scheme: "http".',
        )


def check_url(doc: Document, path: Path, url: str, scheme: Any = None) -> Iterator[Finding]:
    """An endpoint must be http(s)://host:port, of the scheme that is stated."""
    parts = _split(url)
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path not in ("", "/")
    ):
        yield doc.finding(
            "NIX015",
            "error",
            path,
            f"{url!r} is not of the form http(s)://host:port.",
            "Correct the endpoint.",
        )
    elif isinstance(scheme, str) and scheme != parts.scheme:
        yield doc.finding(
            "NIX016",
            "error",
            path,
            f"the endpoint is {parts.scheme}, but scheme says {scheme}.",
            f'Write scheme: "{parts.scheme}", or correct the endpoint.',
        )


def plain_http(doc: Document, path: Path, url: str, real_keys: bool) -> Iterator[Finding]:
    """Credentials over plain http belong into a lab's own network only."""
    parts = _split(url)
    if not real_keys or parts is None or parts.scheme != "http" or not parts.hostname:
        return
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        if parts.hostname == "localhost" or "." not in parts.hostname:
            return
        yield doc.finding(
            "NIX017",
            "warning",
            path,
            f"requests signed with real credentials go to {parts.hostname} in plain http.",
            "Use https (9021) unless this name is inside the lab's own network.",
        )
        return
    if address.is_global:
        yield doc.finding(
            "NIX017",
            "error",
            path,
            f"requests signed with real credentials go to the public address {address} in plain http.",
            "Use https, or an address of the lab's own network.",
        )


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _credentials(doc: Document, where: Path, params: dict[str, Any], context: Context) -> Iterator[Finding]:
    for key in (*_SECRETS, "bucket"):
        value = params.get(key)
        if isinstance(value, str) and _is_placeholder(value):
            yield doc.finding(
                "NIX018",
                "error",
                (*where, key),
                f"{key} still is the placeholder of an example.",
                "Put the real value in, or leave it out and give it by the environment.",
            )
    present = [key for key in _SECRETS if params.get(key)]
    if present and context.file_mode is not None and context.file_mode & 0o077:
        yield doc.finding(
            "NIX019",
            "error",
            (*where, present[-1]),
            f"the file holds a secret and others may read it (mode {context.file_mode:04o}).",
            "chmod 0600, or leave the keys out and give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the service.",
        )
    if context.env is not None and not present and "AWS_ACCESS_KEY_ID" not in context.env:
        yield doc.finding(
            "NIX020",
            "error",
            (*where, "access_key"),
            "neither this file nor the environment names credentials; requests go out unsigned.",
            "Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the service by a 0600 environment file.",
        )
    if ("access_key" in params) != ("secret_key" in params):
        yield doc.finding(
            "NIX021",
            "error",
            (*where, "access_key" if "access_key" in params else "secret_key"),
            "of access_key and secret_key only one is here; NIXL takes both or neither.",
            "Give both, or none and use the environment.",
        )


def _is_placeholder(value: str) -> bool:
    return value.lower().startswith(_PLACEHOLDERS)


def has_real_keys(params: Mapping[str, Any], context: Context) -> bool:
    """Whether the file or the environment holds a secret key that is no placeholder."""
    key = params.get("secret_key")
    if isinstance(key, str) and key:
        return not _is_placeholder(key)
    return bool((context.env or {}).get("AWS_SECRET_ACCESS_KEY"))
