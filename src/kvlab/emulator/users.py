"""Object users: access key, up to two secrets, namespace. From a private file, or set by another module."""

from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

MAX_SECRETS = 2  # ObjectScale keeps at most two secret keys per object user


@dataclass(frozen=True)
class User:
    """One object user, whose name is the access key, as on ObjectScale; or one access key of an IAM user."""

    access_key: str
    secret_keys: tuple[str, ...]
    namespace: str
    locked: bool = False
    iam_name: str = ""  # the IAM user that has this access key
    policies: tuple[dict[str, Any], ...] = field(default=(), repr=False)  # what they let an IAM user do

    def __repr__(self) -> str:
        return f"User({self.access_key!r}, namespace={self.namespace!r}, {len(self.secret_keys)} secrets)"


class UserStore:
    """The users the S3 side knows. Safe to change from another thread (the management API does)."""

    def __init__(self, users: list[User] | None = None) -> None:
        self._lock = threading.Lock()
        self._users: dict[str, User] = {u.access_key: u for u in users or []}

    def get(self, access_key: str) -> User | None:
        """The user, or None when there is none by that name."""
        return self._users.get(access_key)

    def all(self) -> list[User]:
        """Every user, by name."""
        with self._lock:
            return sorted(self._users.values(), key=lambda u: u.access_key)

    def put(self, user: User) -> None:
        """Add the user or replace the one of that name."""
        if len(user.secret_keys) > MAX_SECRETS:
            raise ValueError(f"user {user.access_key} has more than {MAX_SECRETS} secret keys")
        with self._lock:
            self._users[user.access_key] = user

    def remove(self, access_key: str) -> bool:
        """Forget the user and its keys; False when there was none."""
        with self._lock:
            return self._users.pop(access_key, None) is not None

    def replace_all(self, users: list[User]) -> None:
        """Take these users in place of all others."""
        with self._lock:
            self._users = {u.access_key: u for u in users}


def load_users(path: Path) -> list[User]:
    """Read `{"users": [{"access_key", "secret_keys": [...], "namespace", "locked"?}]}`.

    The file holds secrets, so it must be readable by its owner alone. Every mistake is a KvlabError that
    names the file and never a secret.
    """
    try:
        with path.open("rb") as handle:
            mode = os.fstat(handle.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise KvlabError(
                    f"the users file {path} holds secrets but can be read by others; run: chmod 600 {path}"
                )
            text = handle.read()
    except OSError as error:
        raise KvlabError(
            f"the users file {path} cannot be read ({error.strerror}); name it with --users"
        ) from None
    try:
        return [_user(entry) for entry in json.loads(text)["users"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = type(error).__name__ if isinstance(error, json.JSONDecodeError) else error
        raise KvlabError(
            f"the users file {path} is not of the form"
            f' {{"users": [{{"access_key", "secret_keys", "namespace"}}]}} ({what})'
        ) from None


def _user(entry: dict[str, object]) -> User:
    access_key, secrets = entry["access_key"], entry["secret_keys"]
    namespace, locked = entry.get("namespace", "ns1"), entry.get("locked", False)
    if not isinstance(access_key, str) or not access_key or not isinstance(namespace, str) or not namespace:
        raise ValueError("access_key and namespace must be text")
    if not isinstance(secrets, list) or not all(isinstance(s, str) and s for s in secrets):
        raise ValueError(f"secret_keys of {access_key} must be a list of text")
    if len(secrets) > MAX_SECRETS:
        raise ValueError(f"{access_key} has more than {MAX_SECRETS} secret keys")
    if not isinstance(locked, bool):
        raise ValueError(f"locked of {access_key} must be true or false")
    return User(access_key, tuple(secrets), namespace, locked)
