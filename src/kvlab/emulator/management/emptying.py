"""The task that empties a bucket and then removes it. The bucket is read-only meanwhile."""

from __future__ import annotations

from typing import Any

from kvlab.emulator import access
from kvlab.emulator.index import Bucket
from kvlab.emulator.management.ask import Array
from kvlab.emulator.management.records import Document, Records
from kvlab.emulator.retention import retained_until

KIND = "emptying"
BATCH = 200
"""Objects deleted in one go; S3 is served between two of them."""

_RUNNING = ("PENDING", "IN_PROGRESS")


def begin(array: Array, bucket: Bucket) -> None:
    """Note the task; `step` does the work."""
    count, size = array.service.index.usage(bucket.id)
    now = int(array.service.clock() * 1000)
    task: Document = {
        "status": "PENDING",
        "created": now,
        "last_updated": now,
        "entries_deleted": 0,
        "failed_to_delete_due_to_retention": 0,
        "failed_to_delete_due_to_other": 0,
        "approx_object_count": count,
        "approx_total_size": float(size),
        "approx_total_size_unit_string": "B",
        "message": "",
    }
    name = _name(bucket.namespace, bucket.name)
    array.records.put(KIND, name, task)
    array.emptying.add(name)
    access.set_emptying(array.service.index, bucket, on=True)


def in_progress(records: Records, bucket: Bucket) -> bool:
    task = records.get(KIND, _name(bucket.namespace, bucket.name))
    return task is not None and task["status"] in _RUNNING


def status(records: Records, namespace: str, bucket: str) -> Document:
    return records.get(KIND, _name(namespace, bucket)) or {"status": "NOT_FOUND"}


def forget(records: Records, bucket: Bucket) -> None:
    """A new bucket has no past."""
    records.remove(KIND, _name(bucket.namespace, bucket.name))


def remove_bucket(array: Array, bucket: Bucket) -> None:
    """Remove an empty bucket, with uploads that never ended."""
    service = array.service
    for upload in service.index.uploads(bucket.id):
        service.end_upload(upload)
    service.index.delete_bucket(bucket.id)


def step(array: Array) -> None:
    """Delete one batch for each task that runs; what is under retention stays, and the task fails at its end."""
    for name in sorted(array.emptying):
        task = array.records.get(KIND, name)
        if task is not None and task["status"] in _RUNNING:
            _advance(array, name, task)
        else:
            array.emptying.discard(name)


def resume(array: Array) -> None:
    """Take up the tasks that a stopped array left."""
    tasks = array.records.all(KIND)
    array.emptying |= {name for name, task in tasks.items() if task["status"] in _RUNNING}


def _advance(array: Array, name: str, task: dict[str, Any]) -> None:
    service = array.service
    namespace, _, bucket_name = name.partition("/")
    bucket = service.index.bucket(namespace, bucket_name)
    now = service.clock()
    task["last_updated"] = int(now * 1000)
    if bucket is None:
        task["status"] = "DONE"
    else:
        task["status"] = "IN_PROGRESS"
        kept = 0
        due = []
        for entry in service.index.scan(bucket.id, prefix="", after=None, beyond=None):
            if now < retained_until(bucket, entry):
                kept += 1
            else:
                due.append(entry)
                if len(due) == BATCH:
                    break
        for entry in due:
            service.index.delete(bucket.id, entry.key)
            service.drop(entry.file, entry.size)
        task["entries_deleted"] += len(due)
        if len(due) < BATCH:
            _end(array, bucket, task, kept)
    array.records.put(KIND, name, task)


def _end(array: Array, bucket: Bucket, task: dict[str, Any], kept: int) -> None:
    if kept:
        task |= {"status": "FAILED", "failed_to_delete_due_to_retention": kept}
        task["message"] = f"{kept} objects are under retention"
        access.set_emptying(array.service.index, bucket, on=False)
    else:
        remove_bucket(array, bucket)
        task["status"] = "DONE"


def _name(namespace: str, bucket: str) -> str:
    # No namespace has a slash in its name.
    return f"{namespace}/{bucket}"
