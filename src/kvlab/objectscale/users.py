"""Object users without IAM: the name is the S3 access key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvlab.errors import KvlabError
from kvlab.objectscale import tags
from kvlab.objectscale.management import Management
from kvlab.objectscale.namemap import is_true
from kvlab.objectscale.plan import Call, Document, Plan, quoted


@dataclass(frozen=True)
class ObjectUser:
    """A wanted object user; None leaves tags or lock as they are."""

    name: str
    namespace: str
    tags: Mapping[str, str] | None = None
    locked: bool | None = None

    @property
    def path(self) -> str:
        return f"/object/users/{quoted(self.name)}"

    @property
    def about(self) -> str:
        return f"object user {self.name} of namespace {self.namespace}"

    @property
    def place(self) -> dict[str, str]:
        return {"user": self.name, "namespace": self.namespace}


def find(api: Management, user: ObjectUser) -> Document | None:
    """The user's info. Raises when the name belongs to another namespace: names are unique over the whole array."""
    found = api.find(f"{user.path}/info", user.about, {"namespace": user.namespace})
    if found is not None and found.get("namespace") not in (None, user.namespace):
        raise KvlabError(
            f"{user.about}: that name is taken by a user of namespace {found['namespace']}; choose another name"
        )
    return found


def plan(user: ObjectUser, found: Document | None) -> Plan:
    """Make the user, or change its tags and lock. A new user has no key yet."""
    wanted = {"tags": user.tags, "locked": user.locked}
    after: Document = {"state": "present"}
    after |= {option: value for option, value in wanted.items() if value is not None}
    if found is None:
        return Plan(_creation(user), {"state": "absent"}, after)
    have: Document = {
        "state": "present",
        "tags": tags.of(found.get("tag"), "name", "value"),
        "locked": is_true(found.get("locked")),
    }
    calls = []
    if user.tags is not None:
        calls += tags.calls(have["tags"], user.tags, lambda method, some: _tag(user, method, some))
    if user.locked is not None and user.locked != have["locked"]:
        calls.append(_lock(user))
    return Plan(tuple(calls), {option: have[option] for option in after}, after)


def removal(user: ObjectUser, found: Document | None) -> Plan:
    """Remove the user and its keys."""
    gone = {"state": "absent"}
    if found is None:
        return Plan(before=gone, after=gone)
    call = Call("POST", "/object/users/deactivate", user.about, user.place)
    return Plan((call,), {"state": "present"}, gone)


def _creation(user: ObjectUser) -> tuple[Call, ...]:
    """A user cannot be made locked, so it is locked after."""
    body = user.place | ({"tags": tags.pairs(user.tags, "name", "value")} if user.tags else {})
    made = Call("POST", "/object/users", user.about, body)
    return (made, _lock(user)) if user.locked else (made,)


def _lock(user: ObjectUser) -> Call:
    return Call("PUT", "/object/users/lock", user.about, user.place | {"isLocked": user.locked})


def _tag(user: ObjectUser, method: str, some: Mapping[str, str]) -> Call:
    body = {"tags": tags.pairs(some, "name", "value")}
    return Call(method, f"{user.path}/tags", user.about, body, {"namespace": user.namespace})
