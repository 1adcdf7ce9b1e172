"""Login and logout, and what a refused login means."""

from __future__ import annotations

import time
from typing import Any

from kvlab.objectscale.errors import LimitError, LoginRefusedError, UnsupportedError, code_and_reason, refusal
from kvlab.objectscale.plan import Call
from kvlab.objectscale.session import Session
from kvlab.objectscale.wire import Access, Wire, document

_LIFETIME = 8 * 3600
"""Seconds a token lives when the array does not say."""


def login(wire: Wire, access: Access) -> Session:
    """A new token. Raises a ManagementError that tells apart what the reply lets one tell apart."""
    reply = wire.deliver(Call("GET", "/login", "login"), login=(access.username, access.password))
    token = reply.headers.get("X-SDS-AUTH-TOKEN")
    if reply.is_success and token:
        lifetime = float(reply.headers.get("X-SDS-AUTH-MAX-AGE", _LIFETIME))
        return Session(access.address, access.username, token, time.time(), lifetime)
    said = document(reply)
    if reply.status_code in (401, 403) and not _is_objectscale_1(said):
        raise _refused(access, reply.status_code, said)
    code, _ = code_and_reason(said)
    if code is not None:
        raise refusal(reply.status_code, said, "login", access.address)
    raise UnsupportedError(
        f"{access.address} is no management API of ObjectScale 4.x or ECS 3.8 (its /login answers HTTP "
        f"{reply.status_code} without a token); correct host and port. ObjectScale 1.x on Kubernetes is not supported"
    )


def logout(wire: Wire, token: str, address: str) -> None:
    """Give back this one token; never `force`, which would end the user's other plays."""
    reply = wire.deliver(Call("GET", "/logout", "logout"), token=token)
    if not reply.is_success and not is_stale(reply.status_code, reply.headers.get("Location", "")):
        raise refusal(reply.status_code, document(reply), "logout", address)


def is_stale(status: int, location: str) -> bool:
    """Whether a reply means that the token is no longer good: 401, or the way to the login page."""
    return status == 401 or location.partition("?")[0].endswith("/login")


def _refused(access: Access, status: int, said: Any) -> Exception:
    code, reason = code_and_reason(said)
    who = f"user {access.username} at {access.address}"
    words = reason.lower()
    if "lock" in words:
        return LoginRefusedError(f"{who} is locked; let an administrator unlock it, then run again", code)
    if "token" in words:
        return LimitError(
            f"{who} holds as many tokens as the array allows (100); log some out, or wait two hours until unused ones "
            "end",
            code,
        )
    if status == 401:
        return LoginRefusedError(f"{who}: name or password is wrong; correct them", code)
    return refusal(status, said, "login", access.address)


def _is_objectscale_1(said: Any) -> bool:
    """The body that the containerised generation sends with a 401 (facts/objectscale.md 1.1)."""
    return isinstance(said, dict) and "http_status_code" in said
