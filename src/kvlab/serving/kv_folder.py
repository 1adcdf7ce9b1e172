"""The folder of the `file` profile: made and marked, and emptied of what an earlier server left in it.

LMCache writes `obj_<slot>_<4 hex>.bin` there. Nothing else is ever removed, and nothing at all from a folder that
does not bear kvlab's mark: a mistyped path costs a sentence, not somebody's files.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.probes.file_tier import kv_files

MARK = ".kvlab-kv"
ROOT = Path("/")
_MARK_TEXT = (
    "KV of a kvlab profile: LMCache's files here are removed at each start of the server that wrote them.\n"
)


def fresh(folder: Path, *, direct_io: bool, mounted: bool) -> int:
    """Make the folder if its parent is there, and remove LMCache's files from it. Returns how many there were.

    With `mounted` it must lie on another file system than the root's: else a mount that is missing would fill the
    system's disk. With `direct_io` that file system must offer it.

    Raises:
        KvlabError: it cannot be used, or holds files and does not bear the mark.
    """
    try:
        if mounted and folder.parent.stat().st_dev == ROOT.stat().st_dev:
            raise KvlabError(
                f"{folder} lies on the root file system, so nothing is mounted there; mount the storage first."
            )
        folder.mkdir(exist_ok=True)
        _mark(folder)
        if direct_io:
            _try_direct_io(folder)
        old = kv_files(folder)
        for file in old:
            file.unlink()
    except OSError as error:
        raise KvlabError(
            f"the folder {folder} of profile file cannot be used: {error.strerror}; its parent must exist and this "
            "user be allowed to write there."
        ) from error
    return len(old)


def _mark(folder: Path) -> None:
    mark = folder / MARK
    if mark.is_file():
        return
    if any(folder.iterdir()):
        raise KvlabError(
            f"{folder} holds files but not {MARK}, so it is not kvlab's: nothing was removed. Give profile file a "
            "folder of its own (file_path)."
        )
    mark.write_text(_MARK_TEXT)


def _try_direct_io(folder: Path) -> None:
    try:
        os.close(os.open(folder / MARK, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise KvlabError(
            f"the file system of {folder} has no direct I/O; use another folder, or direct_io: false in "
            "kv_profiles_list, with which hot passes may come from the page cache."
        ) from None
