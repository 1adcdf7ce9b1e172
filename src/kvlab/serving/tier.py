"""Where the running profile keeps its chunks, as witnesses outside LMCache see it: a bucket, or a folder.

Both answer alike: what lies there now, and what moved since a mark. `objects` are {"key", "size"}; in a folder each
is a slot of a file. `since` gives the keys "access_log" (the store's requests of that time) and "file" (what LMCache's
server read and wrote, by the kernel's count) that the checks of topics `kv` and `path` want. "file" is null for a
bucket, and where the server did not run all that time, so that nobody counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kvlab.probes import Facts, access_log, file_tier, s3_bucket
from kvlab.serving import manager
from kvlab.serving.lab import Lab


class Mark(NamedTuple):
    """A moment: where the store's log ended; the process of LMCache's server, 0 for none, and what it had moved."""

    log: access_log.Mark
    pid: int = 0
    moved: Mapping[str, int] = MappingProxyType({})


class Tier(Protocol):
    """What every kind of tier can be asked."""

    def objects(self) -> list[Facts]:
        """Key and size of all that is stored."""

    def mark(self) -> Mark:
        """This moment."""

    def since(self, mark: Mark) -> Facts:
        """What moved since the mark: {"access_log", "file"}."""

    def body(self, key: str) -> bytes:
        """The bytes of one object."""

    def overwrite(self, key: str, content: bytes) -> None:
        """Put other bytes in their place."""


@dataclass(frozen=True)
class Bucket:
    """The bucket of an S3 profile; `store` is an S3 client."""

    lab: Lab
    name: str
    store: Any

    def objects(self) -> list[Facts]:
        return s3_bucket.objects(self.store, self.name)

    def mark(self) -> Mark:
        return Mark(access_log.mark(_log(self.lab)))

    def since(self, mark: Mark) -> Facts:
        requests = access_log.read(_log(self.lab), mark.log, self.name)["requests"]
        return {"access_log": requests, "file": None}

    def body(self, key: str) -> bytes:
        return s3_bucket.body(self.store, self.name, key)

    def overwrite(self, key: str, content: bytes) -> None:
        self.store.put_object(Bucket=self.name, Key=key, Body=content)


@dataclass(frozen=True)
class Folder:
    """The folder of profile `file`. Requests to any bucket count, for there should be none."""

    lab: Lab
    profile: Mapping[str, Any]

    @property
    def path(self) -> Path:
        return Path(self.profile["file_path"])

    def objects(self) -> list[Facts]:
        return file_tier.slots(self.path, int(self.profile["slot_bytes"]))

    def mark(self) -> Mark:
        pid = manager.of(self.lab).program(f"lmcache-{self.profile['name']}").pid
        return Mark(access_log.mark(_log(self.lab)), pid, file_tier.moved(pid) if pid else {})

    def since(self, mark: Mark) -> Facts:
        requests = access_log.read(_log(self.lab), mark.log)["requests"]
        return {"access_log": requests, "file": self._moved_since(mark)}

    def _moved_since(self, mark: Mark) -> Facts | None:
        now = self.mark()
        if not mark.pid or now.pid != mark.pid:
            return None
        moved = {name: now.moved[name] - mark.moved[name] for name in now.moved}
        return {"direct_io": self.profile["direct_io"], **moved}

    def body(self, key: str) -> bytes:
        return file_tier.body(self.path, key, int(self.profile["slot_bytes"]))

    def overwrite(self, key: str, content: bytes) -> None:
        file_tier.overwrite(self.path, key, content)


def of(lab: Lab, profile: str, store: Any) -> Tier:
    """The tier of a profile that has one; `store` is an S3 client, for those that use a bucket."""
    facts = lab.profiles[profile]
    return Folder(lab, facts) if facts["file_path"] else Bucket(lab, str(facts["bucket"]), store)


def _log(lab: Lab) -> Path:
    return Path(lab.data["access_log"])
