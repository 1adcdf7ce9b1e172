"""Secret keys of object users, two at most; and the handing over of users and keys to the S3 side."""

from __future__ import annotations

import datetime
import hashlib
import secrets
from typing import Any

from kvlab.emulator.management.ask import Answer, Array, Ask, flag, number, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.management.records import Document
from kvlab.emulator.users import MAX_SECRETS, User

KIND = "keys"
_HIDE = ("setting", "hide secret keys")
_LONGEST_MIN = 10 * 365 * 24 * 60  # ten years; a limit of the array is not documented
_GENERATED = 30  # bytes, 40 characters in base 64


def link(user: str) -> Document:
    return {"rel": "self", "href": f"/object/user-secret-keys/{user}"}


def key_id(secret: str) -> str:
    """The id of a key is its SHA-256."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create(ask: Ask) -> Answer:
    """Add a key, given or generated. Not idempotent: each call adds one, the third is refused."""
    name = _user(ask, ask.place["user"], text(ask.body, "namespace", ""))
    held = held_by(ask.array, name)
    if len(held) >= MAX_SECRETS:
        raise ApiError(1031, f"The user {name} already has {MAX_SECRETS} secret keys")
    if ask.body.get("secretkey") == "":
        raise ApiError(1008, "secretkey must not be empty; leave it out to have one generated")
    secret = text(ask.body, "secretkey", secrets.token_urlsafe(_GENERATED))
    if any(key["secret"] == secret for key in held):
        raise ApiError(1008, f"The user {name} has that key already")
    now = ask.array.service.clock()
    minutes = number(ask.body, "existing_key_expiry_time_mins", -1)
    if not 0 <= minutes <= _LONGEST_MIN and ask.body.get("existing_key_expiry_time_mins") not in (None, ""):
        raise ApiError(1008, f"existing_key_expiry_time_mins must be from 0 to {_LONGEST_MIN}")
    if minutes >= 0:
        for key in held:
            key["expires"] = now + minutes * 60
    made = {"secret": secret, "made": now, "expires": None}
    _keep(ask.array, name, [*held, made])
    return Answer(
        {
            "secret_key": secret,
            "secret_key_id": key_id(secret),
            "key_timestamp": _time(now),
            "key_expiry_timestamp": _time(None),
            "link": link(name),
        },
        "user_secret_key",
    )


def read(ask: Ask) -> Answer:
    """The keys themselves, unless the array is set to hide them."""
    return _shown(ask, secret=not hidden(ask.array))


def exist(ask: Ask) -> Answer:
    """Which keys there are, without a secret."""
    return _shown(ask, secret=False)


def _shown(ask: Ask, *, secret: bool) -> Answer:
    name = _user(ask, ask.place["user"], ask.place.get("namespace", ask.query.get("namespace", "")))
    held: list[Document | None] = [*held_by(ask.array, name)]
    shown: dict[str, Any] = {"link": link(name)}
    for slot, key in enumerate([*held, None, None][:MAX_SECRETS], start=1):
        shown[f"secret_key_{slot}_exist"] = key is not None
        shown[f"secret_key_{slot}"] = key["secret"] if key and secret else ""
        shown[f"secret_key_{slot}_id"] = key_id(key["secret"]) if key else ""
        shown[f"key_timestamp_{slot}"] = _time(key["made"]) if key else ""
        shown[f"key_expiry_timestamp_{slot}"] = _time(key["expires"]) if key else ""
    return Answer(shown, "user_secret_keys")


def deactivate(ask: Ask) -> Answer:
    """Remove the key with that id or secret, or all when neither is given."""
    name = _user(ask, ask.place["user"], text(ask.body, "namespace", ""))
    held = held_by(ask.array, name)
    secret, wanted = text(ask.body, "secret_key", ""), text(ask.body, "secret_key_id", "")
    if secret and not wanted:
        if hidden(ask.array):
            raise ApiError(1005, "secret_key_id is missing: secret keys are hidden")
        wanted = key_id(secret)
    if wanted and all(key_id(key["secret"]) != wanted for key in held):
        raise not_found(wanted)
    _keep(ask.array, name, [key for key in held if wanted and key_id(key["secret"]) != wanted])
    return Answer()


def read_hiding(ask: Ask) -> Answer:
    return Answer({"value": str(hidden(ask.array)).lower()}, "hide_secret_key")


def update_hiding(ask: Ask) -> Answer:
    ask.need_system()
    ask.records.put(*_HIDE, {"value": flag(ask.body, "value")})
    return Answer()


def hidden(array: Array) -> bool:
    found = array.records.get(*_HIDE)
    return bool(found and found["value"])


def held_by(array: Array, name: str) -> list[Document]:
    """The keys the user has, oldest first; those that have expired are gone."""
    now = array.service.clock()
    found = (array.records.get(KIND, name) or {"keys": []})["keys"]
    return [key for key in found if key["expires"] is None or now < key["expires"]]


def publish(array: Array, name: str) -> None:
    """Let S3 know the user as it is now."""
    user = array.records.get("user", name)
    if user is not None:
        kept = tuple(key["secret"] for key in held_by(array, name))
        array.service.users.put(User(name, kept, user["namespace"], user["locked"]))


def forget(array: Array, name: str) -> None:
    array.records.remove(KIND, name)
    array.service.users.remove(name)


def expire(array: Array) -> None:
    """Take from S3 what has expired meanwhile."""
    for name, document in array.records.all(KIND).items():
        held = held_by(array, name)
        if len(held) != len(document["keys"]):
            _keep(array, name, held)


def _keep(array: Array, name: str, held: list[Document]) -> None:
    array.records.put(KIND, name, {"keys": held})
    publish(array, name)


def _user(ask: Ask, name: str, namespace: str) -> str:
    """The user's name, if it is there, in that namespace (when one is named), and the asker may enter it."""
    user = ask.records.get("user", name)
    if user is None or namespace not in ("", user["namespace"]):
        raise not_found(name)
    ask.own_namespace(user["namespace"])
    return name


def _time(seconds: float | None) -> str:
    """As the array writes times of keys; "" for never."""
    if seconds is None:
        return ""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
