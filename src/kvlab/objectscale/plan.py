"""What a resource needs, worked out before anything is sent: check mode, diff and change are the same plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from kvlab.objectscale.errors import ExistsError, LimitError

Document = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request. `about` names what it is for in an error; a body may hold a secret and is never shown."""

    method: str
    path: str
    about: str
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The calls that bring a resource from `before` to `after`, both in the words of the module's options."""

    calls: tuple[Call, ...] = ()
    before: Document = field(default_factory=dict)
    after: Document = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return bool(self.calls)


class Sender(Protocol):
    def send(self, call: Call) -> Document: ...


def converge(
    api: Sender,
    find: Callable[[], Document | None],
    plan: Callable[[Document | None], Plan],
    *,
    check: bool,
) -> Plan:
    """Look, plan and, unless `check`, do it. `find` gives the resource as the array shows it, None for none.

    When another play has made the same thing between the look and the deed, it is looked at and planned again.
    """
    made = plan(find())
    if check:
        return made
    try:
        _send(api, made)
    except (ExistsError, LimitError):
        made = plan(find())
        _send(api, made)
    return made


def quoted(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def _send(api: Sender, plan: Plan) -> None:
    for call in plan.calls:
        api.send(call)
