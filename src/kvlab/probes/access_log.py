"""The emulated ObjectScale's access log: which path each request's payload took.

Job: {"access_log": PATH, "mark": [inode, byte]|null, "bucket": NAME|null}; `mark` is where to start. Each document
carries, as `mark`, where the log ended when it was read; with "only": "mark" nothing else is read.
The emulator is a stand-in, so every document made from this log is simulated.
"""

from __future__ import annotations

import json
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, document, main

Mark = tuple[int, int]
START: Mark = (0, 0)


def mark(path: Path) -> Mark:
    """Where the log ends now: its inode, and its length in bytes."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise KvlabError(f"there is no access log {path}; run ./lab up.") from error
    return found.st_ino, found.st_size


def read(path: Path, since: Mark = START, bucket: str | None = None) -> Facts:
    """Requests logged after `since`, oldest first; with `bucket`, only that bucket's.

    The emulator renames a full log to <name>.1 and begins anew, so a mark may lie in the renamed file. When
    it lies in neither, requests are lost: KvlabError. A last line without its newline is still being written
    and is left out.
    """
    parts = [path]
    if since != START and mark(path)[0] != since[0]:
        parts.insert(0, path.with_name(path.name + ".1"))
        if mark(parts[0])[0] != since[0]:
            raise KvlabError(f"{path} was replaced since the mark, requests are lost; repeat the run.")
    lines: list[bytes] = []
    for number, part in enumerate(parts):
        with part.open("rb") as log:
            log.seek(since[1] if number == 0 else 0)
            lines += log.read().split(b"\n")[:-1]
    entries = [json.loads(line) for line in lines]
    if bucket is not None:
        entries = [e for e in entries if e["bucket"] == bucket]
    return document("access_log", True, bucket=bucket, requests=entries)


def run(job: Job) -> Facts:
    """The probe's entry: see the module's text for the job."""
    path = Path(job["access_log"])
    end = mark(path)
    if job.get("only") == "mark":
        return document("access_log", True, mark=end)
    inode, offset = job.get("mark") or START
    return {**read(path, (inode, offset), job.get("bucket")), "mark": end}


if __name__ == "__main__":
    main(run)
