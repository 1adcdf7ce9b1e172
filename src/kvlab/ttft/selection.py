"""Which runs of a history are forgotten, and which are compared by what they were measured with. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Literal

from kvlab.errors import KvlabError
from kvlab.ttft.history import Entry
from kvlab.ttft.result import Header, comparable

By = Literal["commit", "stack", "driver"]
ACROSS: dict[By, tuple[str, ...]] = {"commit": (), "stack": ("lab.stack", "versions"), "driver": ("driver",)}
"""What of an environment differs when one of these was changed on purpose."""


def surplus(
    found: Sequence[Entry], *, keep: int | None, older_than: timedelta | None, now: datetime
) -> list[Entry]:
    """The runs to forget: of each environment those before its newest `keep`, and of all those that are older."""
    beyond: list[Entry] = []
    if keep is not None:
        of_environment: dict[tuple[bool, str, str], list[Entry]] = {}
        for one in found:
            key = one.header.simulated, one.header.fingerprint, one.header.model
            of_environment.setdefault(key, []).append(one)
        for alike in of_environment.values():
            beyond += alike[: max(len(alike) - keep, 0)]
    old = [] if older_than is None else [one for one in found if now - _created(one) > older_than]
    named = {one.name for one in (*beyond, *old)}
    return [one for one in found if one.name in named]


def _created(one: Entry) -> datetime:
    try:
        at = datetime.fromisoformat(one.header.created)
        return at if at.tzinfo else at.astimezone()
    except ValueError:
        raise KvlabError(f"{one.file} was made at no time ({one.header.created!r}); remove it.") from None


def value(header: Header, by: By) -> str:
    """What a run was measured with: its commit, its stack, or the driver of its GPUs."""
    match by:
        case "commit":
            return header.commit
        case "stack":
            return header.stack
        case "driver":
            return str(header.environment.get("driver.nvidia") or "")


def sides(
    found: Sequence[Entry], by: By, base: str, candidate: str, most: int
) -> tuple[list[Entry], list[Entry]]:
    """The newest runs with one value and those with another, all of the environment of the candidate's newest.

    A commit may be shortened. Raises KvlabError when there is no run with a value.
    """
    split = [
        [one for one in found if _matches(value(one.header, by), wanted, by)] for wanted in (base, candidate)
    ]
    for wanted, alike in zip((base, candidate), split, strict=True):
        if not alike:
            known = ", ".join(dict.fromkeys(filter(None, (value(one.header, by) for one in reversed(found)))))
            raise KvlabError(
                f"the history holds no run with the {by} {wanted}; it has {known[:500] or 'none that says its own'}."
            )
    newest = split[1][-1].header
    like_it = [[one for one in side if _comparable(one.header, newest, ACROSS[by])] for side in split]
    if not like_it[0]:
        raise KvlabError(
            f"the runs with the {by} {base} are of another environment than those with {candidate}, in more than its "
            f"{by}; measure both in one."
        )
    return like_it[0][-most:], like_it[1][-most:]


def _matches(found: str, wanted: str, by: By) -> bool:
    return found.startswith(wanted) if by == "commit" and len(wanted) >= 7 else found == wanted


def _comparable(one: Header, other: Header, across: Collection[str]) -> bool:
    return (one.simulated, one.model, comparable(one.environment, across)) == (
        other.simulated,
        other.model,
        comparable(other.environment, across),
    )
