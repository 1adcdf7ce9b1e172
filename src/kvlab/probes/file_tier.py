"""What lies in the folder of the `file` profile, and how many bytes its LMCache server moved to and from storage.

Job: {"folder", "slot_bytes", "pid": of the LMCache server}. One file holds many slots and grows where one is written,
so a slot counts as stored as far as the file system holds data for it (SEEK_DATA; without that up to the file's end).
The kernel's counts in /proc/PID/io see direct I/O; what the page cache answers they do not.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, document, main

_KV_FILE = re.compile(r"obj_\d+_[0-9a-f]{4}\.bin")  # LMCache 0.4.5 to 0.5.6: obj_<number>_<4 hex>.bin


def kv_files(folder: Path) -> list[Path]:
    """LMCache's files in the folder, by name; links and folders are none."""
    found = (p for p in folder.iterdir() if _KV_FILE.fullmatch(p.name) and p.is_file() and not p.is_symlink())
    return sorted(found)


def slots(folder: Path, slot_bytes: int) -> list[dict[str, Any]]:
    """Each stored slot: key `<file>@<offset>`, and how many of its bytes hold data."""
    return [slot for file in kv_files(folder) for slot in _slots_of(file, slot_bytes)]


def body(folder: Path, key: str, size: int) -> bytes:
    """The first `size` bytes of a slot."""
    name, _, offset = key.partition("@")
    with (folder / name).open("rb") as file:
        file.seek(int(offset))
        return file.read(size)


def overwrite(folder: Path, key: str, content: bytes) -> None:
    """Put other bytes into a slot, for the proof that what is served depends on them."""
    name, _, offset = key.partition("@")
    with (folder / name).open("r+b") as file:
        file.seek(int(offset))
        file.write(content)


def moved(pid: int) -> dict[str, int]:
    """Bytes that the process and its children have read from and written to storage since they began.

    Raises:
        KvlabError: there is no such process, or it is somebody else's.
    """
    total = {"read": 0, "written": 0}
    for one in _family(pid):
        try:
            pairs = (line.split(": ") for line in Path(f"/proc/{one}/io").read_text().splitlines())
        except OSError as error:
            raise KvlabError(
                f"the kernel's counts of process {one} cannot be read: {error.strerror}."
            ) from error
        counts = {name: int(value) for name, value in pairs}
        total["read"] += counts["read_bytes"]
        total["written"] += counts["write_bytes"]
    return total


def _slots_of(file: Path, slot_bytes: int) -> Iterator[dict[str, Any]]:
    stored: dict[int, int] = {}
    for begin, end in _extents(file):
        for slot in range(begin // slot_bytes, -(-end // slot_bytes)):
            inside = min(end, (slot + 1) * slot_bytes) - max(begin, slot * slot_bytes)
            stored[slot] = stored.get(slot, 0) + inside
    for slot, size in stored.items():
        yield {"key": f"{file.name}@{slot * slot_bytes}", "size": size}


def _extents(file: Path) -> Iterator[tuple[int, int]]:
    """Where the file holds data: (first byte, byte after the last)."""
    handle = os.open(file, os.O_RDONLY)
    try:
        end = 0
        while True:
            try:
                begin = os.lseek(handle, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # no data after this
                    raise
                return
            end = os.lseek(handle, begin, os.SEEK_HOLE)
            yield begin, end
    finally:
        os.close(handle)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def run(job: Job) -> Facts:
    """The probe's entry: see the module's text for the job."""
    folder = Path(job["folder"])
    try:
        found = slots(folder, job["slot_bytes"])
    except OSError as error:
        raise KvlabError(f"the folder {folder} cannot be read: {error.strerror}.") from error
    return document("file_tier", job.get("simulated"), folder=str(folder), slots=found, **moved(job["pid"]))


if __name__ == "__main__":
    main(run)
