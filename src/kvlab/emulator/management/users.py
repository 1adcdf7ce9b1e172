"""Object users: the name is the S3 access key. Names are unique over the whole array (user scope GLOBAL)."""

from __future__ import annotations

import re

from kvlab.emulator.log import iso
from kvlab.emulator.management import keys
from kvlab.emulator.management.ask import Answer, Array, Ask, flag, tag_pairs, text
from kvlab.emulator.management.errors import ApiError, not_found
from kvlab.emulator.management.records import Document

KIND = "user"
_NAME = re.compile(r"[A-Za-z0-9._@+=,-]{1,255}")


def create(ask: Ask) -> Answer:
    """Make a user, without a key; the reply links to where keys are made."""
    name, namespace = text(ask.body, "user"), ask.own_namespace(text(ask.body, "namespace"))
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ApiError(1008, f"The user name {name} is not valid")
    if ask.records.get(KIND, name) is not None:
        raise ApiError(1015, f"A user with the name {name} already exists")
    tags = tag_pairs(ask.body, "tags", "name", "value") if ask.body.get("tags") else {}
    made = {"name": name, "namespace": namespace, "locked": False, "tags": tags}
    ask.records.put(KIND, name, made | {"created": iso(ask.array.service.clock())})
    keys.publish(ask.array, name)
    return Answer({"link": keys.link(name)}, "user_secret_key")


def list_all(ask: Ask) -> Answer:
    return _listed(ask, ask.admin.namespace)


def list_of_namespace(ask: Ask) -> Answer:
    return _listed(ask, ask.own_namespace(ask.place["namespace"]))


def _listed(ask: Ask, namespace: str) -> Answer:
    users = ask.records.all(KIND)
    names = [name for name, user in users.items() if namespace in ("", user["namespace"])]
    prefix = ask.query.get("userid", "").rstrip("*")
    shown, more = ask.page([name for name in names if name.startswith(prefix)])
    entries = [{"userid": name, "namespace": users[name]["namespace"]} for name in shown]
    return Answer({"blobuser": entries, "MaxUsers": len(shown)} | more, "users")


def info(ask: Ask) -> Answer:
    user = find(ask.array, ask.place["user"])
    _enter(ask, user)
    shown = {name: user[name] for name in ("name", "namespace", "locked", "created")}
    shown |= {"tag": _pairs(user["tags"]), "centerapassword": "", "swiftpassword": ""}
    return Answer(shown, "user_info")


def deactivate(ask: Ask) -> Answer:
    """Remove the user and its keys; one that owns buckets stays."""
    user = _named(ask)
    name, namespace = user["name"], user["namespace"]
    if ask.array.service.index.buckets(namespace, name):
        raise ApiError(1020, f"The user {name} owns buckets")
    ask.records.remove(KIND, name)
    keys.forget(ask.array, name)
    return Answer()


def lock(ask: Ask) -> Answer:
    user = _named(ask)
    ask.records.put(KIND, user["name"], user | {"locked": flag(ask.body, "isLocked")})
    keys.publish(ask.array, user["name"])
    return Answer()


def read_lock(ask: Ask) -> Answer:
    user = find(ask.array, ask.place["user"])
    _enter(ask, user)
    return Answer({"user_name": user["name"], "isLocked": user["locked"]}, "user_lock")


def read_tags(ask: Ask) -> Answer:
    user = find(ask.array, ask.place["user"])
    _enter(ask, user)
    return Answer({"user_name": user["name"], "tags": _pairs(user["tags"])}, "user_tags")


def add_tags(ask: Ask) -> Answer:
    """New tags beside those that are there."""
    return _tagged(ask, known=None)


def update_tags(ask: Ask) -> Answer:
    """New values of tags that are there."""
    return _tagged(ask, known=True)


def remove_tags(ask: Ask) -> Answer:
    user = find(ask.array, ask.place["user"])
    _enter(ask, user)
    for name in tag_pairs(ask.body, "tags", "name", "value"):
        if name not in user["tags"]:
            raise not_found(name)
        del user["tags"][name]
    ask.records.put(KIND, user["name"], user)
    return Answer()


def _tagged(ask: Ask, *, known: bool | None) -> Answer:
    user = find(ask.array, ask.place["user"])
    _enter(ask, user)
    wanted = tag_pairs(ask.body, "tags", "name", "value")
    for name in wanted:
        if known and name not in user["tags"]:
            raise not_found(name)
        if not known and name in user["tags"]:
            raise ApiError(1015, f"A tag with the name {name} already exists")
    ask.records.put(KIND, user["name"], user | {"tags": user["tags"] | wanted})
    return Answer()


def find(array: Array, name: str) -> Document:
    """The user; ApiError 1004 when there is none by that name."""
    found = array.records.get(KIND, name)
    if found is None:
        raise not_found(name)
    return found


def _named(ask: Ask) -> Document:
    """The user that the body names, of the namespace that it names."""
    user = find(ask.array, text(ask.body, "user"))
    if text(ask.body, "namespace", user["namespace"]) != user["namespace"]:
        raise not_found(user["name"])
    _enter(ask, user)
    return user


def _enter(ask: Ask, user: Document) -> None:
    ask.own_namespace(user["namespace"])


def _pairs(tags: dict[str, str]) -> list[Document]:
    return [{"name": name, "value": value} for name, value in tags.items()]
