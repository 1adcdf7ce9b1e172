"""Removal of a bucket, and the array's task that empties it first."""

from __future__ import annotations

import time
from collections.abc import Callable

from kvlab.errors import KvlabError
from kvlab.objectscale import buckets
from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.errors import InUseError, ManagementError
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Call, Document, Plan

_LOOK_EVERY = 2.0
"""Seconds between two looks at the task; it empties thousands of objects meanwhile."""

_ENDED_BADLY = frozenset({"FAILED", "ABORTED", "ABORT_IN_PROGRESS"})


def plan(bucket: Bucket, found: Document | None, *, empty: bool) -> Plan:
    """Nothing when it is gone, or is being emptied already by a run before; follow() then waits."""
    gone = {"state": "absent"}
    if found is None:
        return Plan(before=gone, after=gone)
    query = {"namespace": bucket.namespace, "emptyBucket": str(empty).lower()}
    call = Call("POST", f"{bucket.path}/deactivate", bucket.about, query=query)
    return Plan(() if buckets.is_emptying(found) else (call,), {"state": "present"}, gone)


def remove(api: Management, bucket: Bucket, *, empty: bool, check: bool) -> tuple[Plan, bool]:
    """The plan, done unless `check`, and whether the array still empties the bucket behind it."""
    found = buckets.find(api, bucket)
    made = plan(bucket, found, empty=empty)
    if check or found is None:
        return made, False
    if not made.calls:
        return made, True
    try:
        return made, api.status_of(made.calls[0]) == 202
    except InUseError as error:
        if empty:
            raise
        raise InUseError(
            f"{bucket.about} holds objects, and is kept; to remove it with all of them, say empty: true",
            error.code,
        ) from None


def follow(
    api: Management,
    bucket: Bucket,
    tell: Callable[[str], None],
    timeout: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the bucket is gone, and tell how far the array is. Raises when the task fails, or takes too long."""
    end = clock() + timeout
    while True:
        task = api.find(f"{bucket.path}/empty-bucket-status", bucket.about, {"namespace": bucket.namespace})
        status = str((task or {}).get("status", "NOT_FOUND"))
        if task is None or status in ("DONE", "NOT_FOUND"):
            if buckets.find(api, bucket) is None:
                if task is not None:
                    tell(f"{bucket.about}: emptied and removed, {_progress(task)}")
                return
            if status != "DONE":
                raise ManagementError(f"{bucket.about}: it is there, and nothing empties it; run again")
        elif status in _ENDED_BADLY:
            raise ManagementError(
                f"{bucket.about}: the array's task that empties it is {status}; {_why(task)}"
            )
        if clock() >= end:
            raise KvlabError(
                f"{bucket.about} is not empty after {timeout:g} s ({_progress(task)}); the array goes on, run again to "
                "wait for it"
            )
        tell(f"{bucket.about}: {status.lower().replace('_', ' ')}, {_progress(task)}")
        sleep(_LOOK_EVERY)


def _progress(task: Document | None) -> str:
    task = task or {}
    total = int(task.get("approx_object_count") or 0)
    done = f"{int(task.get('entries_deleted') or 0)} objects deleted"
    return f"{done} of about {total}" if total > 0 else done


def _why(task: Document) -> str:
    kept = int(task.get("failed_to_delete_due_to_retention") or 0)
    other = int(task.get("failed_to_delete_due_to_other") or 0)
    message = str(task.get("message") or "").strip()
    reasons = [
        f"{kept} objects are kept by retention: wait until it ends" if kept else "",
        f"{other} objects could not be deleted" if other else "",
        message,
    ]
    return "; ".join(reason for reason in reasons if reason) or "ask its administrator"
