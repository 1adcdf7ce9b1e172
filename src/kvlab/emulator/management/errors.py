"""How the management API refuses: `{code, description, details, retryable}`; IAM has a form of its own.

Codes as python-ecsclient and goobjectscale list them (facts/objectscale.md 1.2). The HTTP status is 400 unless a
public source says otherwise, so a client that decides by status is found out here.
"""

from __future__ import annotations

from typing import Any

_CODES: dict[int, tuple[int, str]] = {
    1002: (400, "URI parameter is invalid"),
    1004: (400, "Request parameter cannot be found"),
    1005: (400, "Required parameter is missing or empty"),
    1007: (400, "Method is not supported"),
    1008: (400, "Parameter is invalid"),
    1013: (400, "Bad request body"),
    1015: (400, "Resource already exists"),
    1019: (404, "Resource is not found"),
    1020: (400, "Resource is referenced"),
    1025: (400, "Unable to delete"),
    1031: (400, "Exceeding limit"),
    2000: (404, "Entity specified in the URL is not found"),
    3000: (403, "Forbidden"),
    3001: (403, "License check failed"),
    4000: (401, "Invalid user credentials or token"),
    6000: (503, "Service is unavailable"),
    30024: (500, "Internal exception"),
    40008: (400, '"Bucket already exists"'),  # the quotes are the array's
    40009: (400, "Invalid bucket name"),
    40010: (400, "Bucket owner is not valid"),
}
_RETRYABLE = frozenset({6000})

_IAM: dict[str, int] = {
    "NoSuchEntity": 404,
    "EntityAlreadyExists": 409,
    "DeleteConflict": 409,
    "LimitExceeded": 409,
    "AccessDenied": 403,
    "MalformedPolicyDocument": 400,
    "ValidationError": 400,
    "InvalidAction": 400,
}


class ApiError(Exception):
    """A refusal by code; `details` say about what."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.status, self.description = _CODES[code]
        self.details = details

    def document(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "description": self.description,
            "details": self.details,
            "retryable": self.code in _RETRYABLE,
        }


class IamError(Exception):
    """A refusal of /iam, by AWS's names."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.code = name
        self.status = _IAM[name]
        self.message = message

    def document(self) -> dict[str, Any]:
        return {"Code": self.code, "Message": self.message}


def not_found(name: str) -> ApiError:
    """What a request refers to is not there: HTTP 400, not 404."""
    return ApiError(1004, f"Unable to find entity with the given id {name}")
