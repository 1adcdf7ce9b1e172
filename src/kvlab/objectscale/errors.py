"""What the management API refuses, by code: the HTTP status alone never decides (facts/objectscale.md 1.2, 1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlab.errors import KvlabError


class ManagementError(KvlabError):
    """The management API refused a request, or could not be asked. `code` is the array's own, if it gave one."""

    def __init__(self, message: str, code: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code


class UnreachableError(ManagementError):
    """No answer: address, name, TLS, or a connection that broke."""


class UnsupportedError(ManagementError):
    """Something answers, but not an array or a call that this client knows."""


class LoginRefusedError(ManagementError):
    """User, password or token are not accepted."""


class ForbiddenError(ManagementError):
    """The user is known and may not do this."""


class LicenceError(ManagementError):
    """The array's licence does not allow this."""


class NotFoundError(ManagementError):
    """What was asked for, or what the request refers to, is not there."""


class ExistsError(ManagementError):
    """What was to be made is there already."""


class InUseError(ManagementError):
    """What was to be removed still holds or serves something."""


class LimitError(ManagementError):
    """The array allows no more of these."""


class InvalidError(ManagementError):
    """The array does not accept a value."""


class BusyError(ManagementError):
    """The array has a trouble of its own."""


Kind = type[ManagementError]

_REFERS = (
    "it, or something that it refers to (namespace, owner, replication group), is not there; make that first"
)
_VALUE = "correct the value"
_TAKEN = "the name is taken where it was not looked for; choose another, or remove what holds it"
_BUSY = "run again; if it stays so, ask the array's administrator"
_RIGHTS = "use a system administrator, or the administrator of the namespace"

_CODES: dict[int | str, tuple[Kind, str]] = {
    1002: (InvalidError, _VALUE),
    1004: (NotFoundError, _REFERS),
    1005: (InvalidError, "give the value that is missing"),
    1007: (UnsupportedError, "this release or licence lacks the call; ObjectScale 4.x or ECS 3.8 is needed"),
    1008: (InvalidError, _VALUE),
    1013: (InvalidError, _VALUE),
    1015: (ExistsError, _TAKEN),
    1019: (NotFoundError, _REFERS),
    1020: (InUseError, "remove first what is in it or refers to it"),
    1025: (InUseError, "remove first what is in it or refers to it"),
    1026: (ForbiddenError, _RIGHTS),
    1031: (LimitError, "remove one first"),
    2000: (NotFoundError, _REFERS),
    3000: (ForbiddenError, _RIGHTS),
    3001: (LicenceError, "install a valid licence on the array"),
    4000: (LoginRefusedError, "check the user and the password"),
    6000: (BusyError, _BUSY),
    30024: (BusyError, _BUSY),
    30026: (BusyError, _BUSY),
    40008: (ExistsError, _TAKEN),
    40009: (InvalidError, "correct the bucket's name: 1 to 255 of letters, digits, '.', '_' and '-'"),
    40010: (InvalidError, "make the owner first, as an object user of the bucket's namespace"),
    40011: (InvalidError, "give another replication group"),
    40012: (InvalidError, "give another replication group"),
    40013: (InvalidError, "the replication group has no storage; give another one"),
    # IAM has words instead of numbers.
    "NoSuchEntity": (NotFoundError, "the user, the policy or the namespace is not there; make that first"),
    "EntityAlreadyExists": (ExistsError, _TAKEN),
    "DeleteConflict": (InUseError, "remove its access keys and policies first"),
    "LimitExceeded": (LimitError, "remove one first"),
    "AccessDenied": (ForbiddenError, _RIGHTS),
    "MalformedPolicyDocument": (InvalidError, "correct the policy"),
    "ValidationError": (InvalidError, _VALUE),
}

_STATUSES: dict[int, tuple[Kind, str]] = {
    401: (LoginRefusedError, "check the user and the password"),
    403: (ForbiddenError, _RIGHTS),
    404: (NotFoundError, _REFERS),
}
"""For replies that carry no code."""


def code_and_reason(document: Any) -> tuple[int | str | None, str]:
    """The array's code and words in an error body, in the API's own form or in IAM's; (None, "") for neither."""
    for wrapper in ("ErrorResponse", "Error", "error"):
        if isinstance(document, Mapping) and isinstance(document.get(wrapper), Mapping):
            document = document[wrapper]
    if not isinstance(document, Mapping):
        return None, ""
    words = document.get("details") or document.get("description") or document.get("Message") or ""
    code = document.get("code", document.get("Code"))
    if isinstance(code, str) and code.isdigit():
        code = int(code)
    # The array quotes some descriptions within the string itself.
    return code, str(words).strip().strip('"').rstrip(".")


def is_retryable(document: Any) -> bool:
    """Whether the array itself says that the same request may succeed later."""
    return isinstance(document, Mapping) and document.get("retryable") in (True, "true")


def refusal(status: int, document: Any, about: str, address: str) -> ManagementError:
    """The error for a refused request: what was refused, the array's words, and what to do."""
    code, reason = code_and_reason(document)
    if code in _CODES:
        kind, remedy = _CODES[code]
    elif status in _STATUSES:
        kind, remedy = _STATUSES[status]
    elif status < 400:
        kind, remedy = UnsupportedError, "it points elsewhere; correct host and port"
    else:
        kind, remedy = (BusyError, _BUSY) if status >= 500 else (InvalidError, _VALUE)
    named = f"code {code}" if code is not None else f"HTTP {status}"
    said = f"{reason} ({named})" if reason else named
    return kind(f"{about}: ObjectScale at {address} answers {said}; {remedy}", code)
