"""Which history a command works on: a folder, or a bucket of the store that options, lab or environment name."""

from __future__ import annotations

from pathlib import Path

from kvlab.cli import _store
from kvlab.serving import lab as labs
from kvlab.ttft import history
from kvlab.ttft.history import Bucket, Folder, History

MIRRORS = Path(".lab/cache/ttft-history")


def of(where: str | None, endpoint: str | None, secrets_file: Path | None, ca_bundle: Path | None) -> History:
    """The history at a folder or `s3://bucket/prefix`; None is where `kvlab ttft run` writes by itself.

    Raises KvlabError when the store is not known, or no key for it.
    """
    if where is None:
        return Folder(labs.load().state_dir / "ttft")
    found = history.place(where)
    if found is None:
        return Folder(Path(where))
    store = _store.resolve(endpoint, secrets_file, ca_bundle)
    mirror = history.mirror(MIRRORS, store.endpoint, *found)
    return Bucket(store.client, store.endpoint, *found, mirror)
