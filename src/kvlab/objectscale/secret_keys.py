"""Secret keys of object users: two at most, compared by their ids (SHA-256 of the key), never shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale.errors import LimitError
from kvlab.objectscale.management import Management
from kvlab.objectscale.namemap import is_true
from kvlab.objectscale.plan import Call, Document, Plan, quoted

_SLOTS = (1, 2)


@dataclass(frozen=True)
class Wish:
    """The key that the user is to have. `rotate` allows it beside another one, `expire_old` removes the others.

    `old_key_expiry_minutes` lets the array end the other key by itself when this one is added.
    """

    user: str
    namespace: str
    secret: str = field(repr=False)
    rotate: bool = False
    expire_old: bool = False
    old_key_expiry_minutes: int | None = None

    @property
    def about(self) -> str:
        return f"secret key of object user {self.user} of namespace {self.namespace}"

    @property
    def path(self) -> str:
        return f"/object/user-secret-keys/{quoted(self.user)}"


def key_id(secret: str) -> str:
    """The array's id of a key."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find(api: Management, user: str, namespace: str) -> Document:
    """Ids of the user's keys, by slot: {"1": id}; {} also for a user that is not there.

    The call that shows no secret is asked first; only a release whose answer to it has no ids is asked for the keys.
    """
    about = f"secret keys of object user {user} of namespace {namespace}"
    place = f"{quoted(user)}/{quoted(namespace)}"
    said = api.find(f"/object/user-secret-keys/exist/{place}", about) or {}
    there = [slot for slot in _SLOTS if is_true(said.get(f"secret_key_{slot}_exist"))]
    if any(not said.get(f"secret_key_{slot}_id") for slot in there):
        said = api.read(f"/object/user-secret-keys/{place}", about)
    return {str(slot): _id_in(said, slot) for slot in there}


def plan(wish: Wish, found: Document | None) -> Plan:
    """Add the key, or remove the others once it is there."""
    ids, wanted = list((found or {}).values()), key_id(wish.secret)
    others = [other for other in ids if other != wanted]
    if wanted in ids:
        gone = others if wish.expire_old else []
        calls = tuple(_removal_call(wish, other) for other in gone)
        return Plan(calls, _shown(ids), _shown([i for i in ids if i not in gone]))
    if wish.expire_old:
        raise KvlabError(
            f"{wish.about}: the given key is not there yet, and the others are kept; add it with rotate: true, bring "
            "it to those who use it, then expire the old one"
        )
    if others and not wish.rotate:
        raise KvlabError(
            f"{wish.about}: the array has another one; give that one, or set rotate: true to add this one beside it"
        )
    if len(others) == len(_SLOTS):
        raise LimitError(
            f"{wish.about}: the user has two other keys already, and no third is allowed; remove the one that nothing "
            "uses (state: absent with its key_id), then run again"
        )
    return Plan((_addition(wish, bool(others)),), _shown(ids), _shown([*ids, wanted]))


def removal(user: str, namespace: str, wanted: str, found: Document | None) -> Plan:
    """Remove the key of one id."""
    ids = list((found or {}).values())
    wish = Wish(user, namespace, "")
    calls = (_removal_call(wish, wanted),) if wanted in ids else ()
    return Plan(calls, _shown(ids), _shown([other for other in ids if other != wanted]))


def _addition(wish: Wish, has_other: bool) -> Call:
    body: dict[str, Any] = {"namespace": wish.namespace, "secretkey": wish.secret}
    if has_other and wish.old_key_expiry_minutes is not None:
        body["existing_key_expiry_time_mins"] = str(wish.old_key_expiry_minutes)
    return Call("POST", wish.path, wish.about, body)


def _removal_call(wish: Wish, gone: str) -> Call:
    body = {"namespace": wish.namespace, "secret_key_id": gone}
    return Call("POST", f"{wish.path}/deactivate", wish.about, body)


def _id_in(said: Mapping[str, Any], slot: int) -> str:
    """An old release gives no ids, but the keys."""
    return str(said.get(f"secret_key_{slot}_id") or key_id(str(said[f"secret_key_{slot}"])))


def _shown(ids: Sequence[str]) -> Document:
    return {"key_ids": sorted(ids)}
