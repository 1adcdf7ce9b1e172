"""Management users and their tokens: 100 at once per user, 8 hours each, 2 hours unused."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kvlab.emulator.management.errors import ApiError
from kvlab.errors import KvlabError

MAX_TOKENS = 100
LIFETIME_S = 8 * 3600
IDLE_S = 2 * 3600


@dataclass
class Administrator:
    """A management user. One with a namespace administers that namespace alone."""

    name: str
    password: str = field(repr=False)
    namespace: str = ""
    locked: bool = False


@dataclass
class _Token:
    user: str
    made: float
    used: float


class Tokens:
    """Logins and tokens; a restart of the array ends them all. `clock` gives seconds."""

    def __init__(self, users: list[Administrator], clock: Callable[[], float] = time.time) -> None:
        self._users = {user.name: user for user in users}
        self._tokens: dict[str, _Token] = {}
        self._clock = clock

    def login(self, authorization: str) -> tuple[str, Administrator]:
        """A new token for HTTP Basic credentials; ApiError 4000 when they are wrong, or there are too many tokens."""
        name, password = _basic(authorization)
        user = self._users.get(name)
        right = hmac.compare_digest(password.encode(), (user.password if user else "").encode())
        if user is None or not right:
            raise ApiError(4000, "The user name or the password is wrong")
        if user.locked:
            raise ApiError(4000, f"The user {name} is locked")
        if self.count(name) >= MAX_TOKENS:
            raise ApiError(4000, f"The user {name} has the maximum number of tokens")
        token, now = secrets.token_urlsafe(48), self._clock()
        self._tokens[token] = _Token(name, now, now)
        return token, user

    def user(self, token: str) -> Administrator:
        """Whose token it is; ApiError 4000 when it is no good, or no longer."""
        self._expire()
        found = self._tokens.get(token)
        if found is None:
            raise ApiError(4000, "The token is missing, unknown or has expired")
        found.used = self._clock()
        return self._users[found.user]

    def logout(self, token: str) -> None:
        self._tokens.pop(token, None)

    def logout_all(self, name: str) -> None:
        """End every token of the user (`force=true`)."""
        self._tokens = {token: held for token, held in self._tokens.items() if held.user != name}

    def named(self, name: str) -> Administrator:
        """The management user; ApiError 1004 when there is none by that name."""
        if name not in self._users:
            raise ApiError(1004, f"Unable to find entity with the given id {name}")
        return self._users[name]

    def count(self, name: str) -> int:
        """How many tokens the user holds."""
        self._expire()
        return sum(held.user == name for held in self._tokens.values())

    def expire_all(self) -> None:
        """End every token, as a fault does."""
        self._tokens.clear()

    def _expire(self) -> None:
        now = self._clock()
        self._tokens = {
            token: held
            for token, held in self._tokens.items()
            if now < held.made + LIFETIME_S and now < held.used + IDLE_S
        }


def load_administrators(path: Path) -> list[Administrator]:
    """Read `{"username", "password"}`, or `{"users": [{"username", "password", "namespace"?, "locked"?}]}`.

    The file holds passwords, so it must be readable by its owner alone. KvlabError for every mistake.
    """
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise KvlabError(
                    f"the management credentials {path} can be read by others; run: chmod 600 {path}"
                )
            found = json.load(handle)
        users = found.get("users", [found])
        made = [_administrator(user) for user in users]
    except OSError as error:
        raise KvlabError(
            f"the management credentials {path} cannot be read ({error.strerror}); name them with "
            "--management-credentials"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KvlabError(
            f'the management credentials {path} are not of the form {{"username", "password"}} or '
            '{"users": [{"username", "password", "namespace"?, "locked"?}]}'
        ) from None
    if not made:
        raise KvlabError(f"the management credentials {path} name no user; give at least one")
    return made


def _administrator(user: dict[str, object]) -> Administrator:
    name, password = user["username"], user["password"]
    namespace, locked = user.get("namespace", ""), user.get("locked", False)
    if not (isinstance(name, str) and name and isinstance(password, str) and password):
        raise ValueError("username and password must be text")
    if not isinstance(namespace, str) or not isinstance(locked, bool):
        raise ValueError("namespace must be text, locked true or false")
    return Administrator(name, password, namespace, locked)


def _basic(authorization: str) -> tuple[str, str]:
    kind, _, encoded = authorization.partition(" ")
    try:
        if kind.lower() != "basic":
            raise ValueError
        name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        if not colon:
            raise ValueError
    except (ValueError, binascii.Error):
        raise ApiError(4000, "A login needs HTTP Basic authentication") from None
    return name, password
