"""A history of runs, one result file each: in a folder, or in a bucket that is mirrored to one before it is read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kvlab.errors import KvlabError
from kvlab.objectscale import s3
from kvlab.ttft import result as results
from kvlab.ttft.result import Header, Result
from kvlab.whole_file import aside


@dataclass(frozen=True)
class Entry:
    """A run of a history. `name` is that of its file; `file` where it can be read."""

    name: str
    file: Path
    header: Header


class History(Protocol):
    """Where runs are kept."""

    def folder(self) -> Path:
        """A folder that holds every run, now."""

    def add(self, result: Result) -> str:
        """Keep a run; its name. A run that is there already is replaced."""

    def remove(self, names: Collection[str]) -> None:
        """Forget runs."""


@dataclass(frozen=True)
class Folder:
    """A history in a folder; one that is not there yet is empty."""

    path: Path

    def folder(self) -> Path:
        return self.path

    def add(self, result: Result) -> str:
        results.write(result, self.path / name_of(result))
        return name_of(result)

    def remove(self, names: Collection[str]) -> None:
        for name in names:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise KvlabError(
                    f"{self.path / name} cannot be removed ({error.strerror}); correct the folder's rights."
                ) from None


@dataclass(frozen=True)
class Bucket:
    """A history under a prefix of a bucket; `client` is boto3's, `mirror` a folder of this history alone.

    Results never change once they are written, so that only new ones are fetched.
    """

    client: Any
    endpoint: str
    bucket: str
    prefix: str  # empty, or with its slash
    mirror: Path

    def folder(self) -> Path:
        with self._explained():
            stored = {
                one.key.removeprefix(self.prefix): one
                for one in s3.objects(self.client, self.bucket, self.prefix)
            }
            wanted = {name: one for name, one in stored.items() if name.endswith(".json") and "/" not in name}
            self.mirror.mkdir(parents=True, exist_ok=True)
            for file in self.mirror.glob("*.json"):
                if file.name not in wanted:
                    file.unlink()
            new = [one for name, one in wanted.items() if not _same(self.mirror / name, one)]
            with ThreadPoolExecutor(s3.CONNECTIONS) as pool:
                list(pool.map(self._fetch, new))
        return self.mirror

    def add(self, result: Result) -> str:
        name = name_of(result)
        with self._explained():
            self.client.put_object(
                Bucket=self.bucket,
                Key=self.prefix + name,
                Body=results.encode(result),
                ContentType="application/json",
            )
        return name

    def remove(self, names: Collection[str]) -> None:
        with self._explained():
            for name in names:
                self.client.delete_object(Bucket=self.bucket, Key=self.prefix + name)

    def _fetch(self, one: s3.StoredObject) -> None:
        content = self.client.get_object(Bucket=self.bucket, Key=one.key)["Body"].read()
        file = self.mirror / one.key.removeprefix(self.prefix)
        with aside(file, content, 0o644) as written:
            os.utime(written, (one.modified.timestamp(), one.modified.timestamp()))
            written.replace(file)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise s3.explain(error, self.endpoint) from error
        except OSError as error:
            raise KvlabError(
                f"{self.mirror} cannot be written ({error.strerror}); correct its rights."
            ) from None


def _same(file: Path, one: s3.StoredObject) -> bool:
    try:
        known = file.stat()
    except FileNotFoundError:
        return False
    return (known.st_size, known.st_mtime) == (one.size, one.modified.timestamp())


def place(where: str) -> tuple[str, str] | None:
    """Bucket and prefix (with its slash) of `s3://bucket/prefix`; None for a folder. KvlabError for half of one."""
    if not where.startswith("s3:"):
        return None
    found = re.fullmatch(r"s3://([^/]+)(?:/(.*))?", where)
    if not found:
        raise KvlabError(f"{where} names no bucket; write s3://bucket/prefix, or a folder.")
    prefix = (found[2] or "").strip("/")
    return found[1], f"{prefix}/" if prefix else ""


def mirror(below: Path, endpoint: str, bucket: str, prefix: str) -> Path:
    """The folder for the mirror of one history."""
    return below / hashlib.sha256(f"{endpoint} {bucket} {prefix}".encode()).hexdigest()[:16]


def name_of(result: Result) -> str:
    """The file name of a run: sorts by time, and is the same for each copy of the run."""
    return re.sub(r"[^A-Za-z0-9._-]", "", f"{result.created}-{result.id}") + ".json"


def entries(history: History) -> list[Entry]:
    """All runs, oldest first. Raises KvlabError when a file is no result."""
    files = results.files_in(history.folder())
    found = [Entry(file.name, file, head) for file, head in zip(files, results.headers(files), strict=True)]
    return sorted(found, key=lambda one: one.header.created)
