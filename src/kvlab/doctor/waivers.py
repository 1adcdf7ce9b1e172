"""Waivers: findings that somebody answers for until a day. A waived finding is shown as waived, never as a pass.

`waivers.yml` is a list of {id, host, owner, reason, expiry}; host is a name or a pattern such as gpu-*, expiry the last
day, as 2027-01-31, on which the waiver counts.
"""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.checks import REGISTRY
from kvlab.errors import KvlabError

FIELDS = ("id", "host", "owner", "reason", "expiry")


@dataclass(frozen=True)
class Waiver:
    """One finding on one host (or a pattern of hosts), answered for by `owner`."""

    id: str
    host: str
    owner: str
    reason: str
    expiry: datetime.date

    def covers(self, check_id: str, host: str) -> bool:
        """Whether it speaks of this check on this host."""
        return self.id == check_id and fnmatch.fnmatchcase(host, self.host)

    def expired(self, today: datetime.date) -> bool:
        """Whether its last day has passed."""
        return self.expiry < today

    def __str__(self) -> str:
        return f"waived by {self.owner} until {self.expiry.isoformat()}: {self.reason}"


def read(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a file.

    Raises:
        KvlabError: the file cannot be read, or a waiver is incomplete or names a check that does not exist.
    """
    import yaml

    try:
        listed = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise KvlabError(f"{path} cannot be read as YAML: {str(error).splitlines()[0]}.") from None
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise KvlabError(f"{path} is not a list of waivers; each has {', '.join(FIELDS)}.")
    return tuple(_waiver(f"{path}, waiver {number}", one) for number, one in enumerate(listed, 1))


def find(waivers: Iterable[Waiver], check_id: str, host: str, today: datetime.date) -> Waiver | None:
    """The waiver that covers a finding today, if there is one."""
    return next((w for w in waivers if w.covers(check_id, host) and not w.expired(today)), None)


def _waiver(place: str, one: Any) -> Waiver:
    if not isinstance(one, dict) or set(one) != set(FIELDS):
        raise KvlabError(f"{place} must have exactly {', '.join(FIELDS)}.")
    empty = [name for name in FIELDS if not one[name]]
    if empty:
        raise KvlabError(f"{place} has no {', '.join(empty)}; a waiver without it answers for nothing.")
    if one["id"] not in REGISTRY:
        raise KvlabError(f"{place} names {one['id']!r}, which is no check; kvlab doctor --list shows them.")
    expiry = one["expiry"]
    if not isinstance(expiry, datetime.date) or isinstance(expiry, datetime.datetime):
        raise KvlabError(f"{place}: expiry is {expiry!r}; write a day, such as 2027-01-31.")
    return Waiver(one["id"], str(one["host"]), str(one["owner"]), str(one["reason"]), expiry)
