"""Where weights are read from: a folder, a web server, a bucket. Each gives a file's bytes from an offset on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from kvlab.errors import KvlabError

CHUNK = 2**20
"""Bytes at a time; what is in hand when a connection breaks is lost."""

HUB = re.compile(r"(^|\.)(huggingface\.co|hf\.co|modelscope\.cn|modelscope\.ai)$")
"""Public hubs. A name there can move to other weights, and a lab without internet has none."""


class SourceError(Exception):
    """Bytes did not come, though they may come yet: the reader tries again."""


class Source(Protocol):
    """Where files are read from."""

    def open(self, name: str, offset: int) -> Any:
        """A context with (offset that the bytes really begin at, the bytes in chunks).

        Raises SourceError when they do not come, KvlabError when trying again is no use.
        """


class Folder:
    """A folder of this host, such as a mounted share."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @contextmanager
    def open(self, name: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """See Source."""
        try:
            with (self.path / name).open("rb") as opened:
                opened.seek(offset)
                yield offset, iter(lambda: opened.read(CHUNK), b"")
        except FileNotFoundError:
            raise KvlabError(
                f"{self.path / name} is not there; complete the source, or correct it."
            ) from None
        except OSError as error:
            raise SourceError(f"{self.path / name} cannot be read ({error.strerror})") from None


class Web:
    """A folder of a web server."""

    def __init__(self, url: str, *, verify: bool | str = True) -> None:
        self.url = url.rstrip("/")
        self.verify = verify

    @contextmanager
    def open(self, name: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """See Source. A server that knows no ranges begins at 0 again."""
        import httpx

        url = f"{self.url}/{quote(name)}"
        # Of a compressed body an offset means something else.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={offset}-"} if offset else {})}
        try:
            with httpx.stream(
                "GET", url, headers=headers, timeout=60, follow_redirects=True, verify=self.verify
            ) as answer:
                if answer.status_code in (401, 403, 404):
                    raise KvlabError(
                        f"{url} answers {answer.status_code}; complete the source, or correct it."
                    )
                if answer.status_code == 416:
                    yield offset, iter(())
                    return
                if answer.status_code not in (200, 206):
                    raise SourceError(f"{url} answers {answer.status_code}")
                yield (offset if answer.status_code == 206 else 0), answer.iter_raw()
        except httpx.InvalidURL as error:
            raise KvlabError(f"{url} is no address ({error}).") from None
        except httpx.HTTPError as error:
            raise SourceError(f"{url}: {error or type(error).__name__}") from None


class Bucket:
    """A prefix of a bucket; `client` is boto3's."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix.strip("/")

    @contextmanager
    def open(self, name: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """See Source."""
        from botocore.exceptions import BotoCoreError, ClientError

        key = f"{self.prefix}/{name}" if self.prefix else name
        where = f"s3://{self.bucket}/{key}"
        try:
            wanted = {"Range": f"bytes={offset}-"} if offset else {}
            answer = self.client.get_object(Bucket=self.bucket, Key=key, **wanted)
            yield offset, answer["Body"].iter_chunks(CHUNK)
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
            if code == "InvalidRange":
                yield offset, iter(())
                return
            if code in (
                "NoSuchKey",
                "NoSuchBucket",
                "AccessDenied",
                "InvalidAccessKeyId",
                "SignatureDoesNotMatch",
                "404",
                "403",
            ):
                raise KvlabError(
                    f"{where} cannot be read ({code}); complete the source, or correct it and its keys."
                ) from None
            raise SourceError(f"{where}: {code}") from None
        except (BotoCoreError, OSError) as error:
            raise SourceError(f"{where}: {error}") from None


def named(place: str, *, client: Any = None, verify: bool | str = True) -> Source:
    """The source that a text names: a folder, http:// or https://, or s3://BUCKET/PREFIX (with a client for it).

    Raises KvlabError for a hub, and for what is none of them.
    """
    parts = urlsplit(place)
    if parts.scheme in ("http", "https"):
        if HUB.search(parts.hostname or ""):
            raise KvlabError(
                f"{place} is a public hub, from which kvlab takes no weights; name a folder, mirror or bucket."
            )
        return Web(place, verify=verify)
    if parts.scheme == "s3" and parts.netloc:
        if client is None:
            raise KvlabError(f"{place} needs an endpoint and its keys; set model_store_s3_endpoint.")
        return Bucket(client, parts.netloc, parts.path)
    if place.startswith("/"):
        return Folder(place)
    raise KvlabError(
        f"{place!r} names no source of weights; give a folder's absolute path, an http address or s3://BUCKET/PREFIX."
    )
