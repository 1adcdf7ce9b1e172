"""Tags of buckets and users: POST adds new ones, PUT changes ones that are there, DELETE takes a body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kvlab.objectscale.plan import Call

Pair = dict[str, str]


def of(found: Iterable[Mapping[str, Any]] | None, name: str, value: str) -> dict[str, str]:
    """Tags of a reply, whose pairs call their parts `name` and `value` (Key and Value for buckets)."""
    return {tag[name]: tag.get(value) or "" for tag in found or ()}


def pairs(tags: Mapping[str, str], name: str, value: str) -> list[Pair]:
    """Tags as the array takes them."""
    return [{name: key, value: content} for key, content in tags.items()]


def calls(
    have: Mapping[str, str], wanted: Mapping[str, str], call: Callable[[str, Mapping[str, str]], Call]
) -> list[Call]:
    """What makes the wanted tags of those that are there. `call` makes a request of a method and tags."""
    gone = {key: value for key, value in have.items() if key not in wanted}
    new = {key: value for key, value in wanted.items() if key not in have}
    other = {key: value for key, value in wanted.items() if key in have and have[key] != value}
    # The number of tags is limited: what goes makes room first.
    return [call(method, tags) for method, tags in (("DELETE", gone), ("PUT", other), ("POST", new)) if tags]
