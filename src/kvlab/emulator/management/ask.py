"""One management request as its handler sees it, and the reading of its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvlab.emulator.management.errors import ApiError
from kvlab.emulator.management.records import Document, Records
from kvlab.emulator.management.tokens import Administrator, Tokens
from kvlab.emulator.service import Service

MAX_PAGE = 1000  # entries of a listing


@dataclass(frozen=True)
class Setup:
    """What the emulated array is: replication groups by name, data addresses of its nodes, release."""

    replication_groups: tuple[str, ...] = ("rg1",)
    node_addresses: tuple[str, ...] = ("127.0.0.1",)
    version: str = "4.1.0.0.kvlab.simulated"
    vdc: str = "vdc1"


@dataclass
class Array:
    """The array behind the API."""

    service: Service
    records: Records
    tokens: Tokens
    setup: Setup = field(default_factory=Setup)
    emptying: set[str] = field(default_factory=set)  # names of the tasks that run


@dataclass
class Answer:
    """A reply: a document, its root element when it goes out as XML, and the HTTP status."""

    document: Mapping[str, Any] = field(default_factory=dict)
    root: str = "result"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Ask:
    """A request that is authenticated. `place` are the variable parts of the path, `admin` who asks."""

    array: Array
    admin: Administrator
    token: str
    place: Mapping[str, str]
    query: Mapping[str, str]
    body: Document
    headers: Mapping[str, str]
    authorization: str = field(default="", repr=False)

    @property
    def records(self) -> Records:
        return self.array.records

    def namespace(self) -> str:
        """The namespace that body or query name, else the administrator's own. It must exist and be theirs."""
        named = text(self.body, "namespace", "") or self.query.get("namespace", "") or self.admin.namespace
        if not named:
            raise ApiError(1005, "The namespace is missing: a system administrator has none")
        return self.own_namespace(named)

    def own_namespace(self, name: str) -> str:
        """The name, if the namespace exists and the administrator may enter it."""
        if self.admin.namespace and name != self.admin.namespace:
            raise ApiError(3000, f"The user {self.admin.name} has no rights in the namespace {name}")
        if self.records.get("namespace", name) is None:
            raise ApiError(1004, f"Unable to find entity with the given id {name}")
        return name

    def need_system(self) -> None:
        """ApiError 3000 unless a system administrator asks."""
        if self.admin.namespace:
            raise ApiError(3000, f"The user {self.admin.name} is no system administrator")

    def page(self, names: list[str]) -> tuple[list[str], Document]:
        """The names a listing shows, by `name` (a prefix with *), `marker` and `limit`, and what it says about that."""
        wanted = self.query.get("name", "")
        prefix = wanted[:-1] if wanted.endswith("*") else None
        if wanted:
            names = [n for n in names if (n.startswith(prefix) if prefix is not None else n == wanted)]
        marker = self.query.get("marker", "")
        names = [n for n in names if n > marker]
        given = self.query.get("limit", str(MAX_PAGE))
        if not re.fullmatch(r"[0-9]{1,6}", given) or int(given) < 1:
            raise ApiError(1008, f"limit must be a number from 1 to {MAX_PAGE}, not {given}")
        limit = min(int(given), MAX_PAGE)
        more: Document = {"Filter": f"name={wanted}"} if wanted else {}
        if len(names) > limit:
            more["NextMarker"] = names[limit - 1]
        return names[:limit], more


def text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text field; ApiError 1005 when it is missing or empty and there is no default, 1008 when it is none."""
    value = body.get(name)
    if value in (None, ""):
        if default is None:
            raise ApiError(1005, f"{name} is missing or empty")
        return default
    if not isinstance(value, str):
        raise ApiError(1008, f"{name} must be text")
    return value


def number(body: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A number, in JSON or as text."""
    value = body.get(name)
    if value in (None, ""):
        if default is None:
            raise ApiError(1005, f"{name} is missing or empty")
        return default
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise ApiError(1008, f"{name} must be a number")
    return int(value)


def flag(body: Mapping[str, Any], name: str, default: bool | None = None) -> bool:
    """A truth value, in JSON or as text."""
    value = body.get(name)
    if value in (None, ""):
        if default is None:
            raise ApiError(1005, f"{name} is missing or empty")
        return default
    if str(value).lower() not in ("true", "false"):
        raise ApiError(1008, f"{name} must be true or false")
    return str(value).lower() == "true"


def items(body: Mapping[str, Any], name: str) -> list[Any]:
    """A list; XML with one element gives that element alone."""
    value = body.get(name)
    if value in (None, ""):
        return []
    return value if isinstance(value, list) else [value]


def tag_pairs(body: Mapping[str, Any], name: str, key: str, value: str) -> dict[str, str]:
    """A list of tags as a dict; ApiError 1005 for none."""
    found = items(body, name)
    if not found or not all(isinstance(tag, Mapping) for tag in found):
        raise ApiError(1005, f"{name} is missing or empty")
    return {text(tag, key): text(tag, value, "") for tag in found}
