"""A bucket with objects goes only when that is said, and the array's task is followed to its end."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from management_array import Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale import removal
from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.errors import InUseError, ManagementError

BUCKET = Bucket("kv", "kvlab")
INFO = "GET /object/bucket/kv/info?namespace=kvlab"
STATUS = "GET /object/bucket/kv/empty-bucket-status?namespace=kvlab"
THERE = {"name": "kv"}
GONE = error(400, 1004)


def deactivate(empty: str) -> str:
    return f"POST /object/bucket/kv/deactivate?namespace=kvlab&emptyBucket={empty}"


def remove(array: Array, *, empty: bool = False, check: bool = False) -> tuple[bool, bool]:
    with array.management() as api:
        plan, emptying = removal.remove(api, BUCKET, empty=empty, check=check)
        return plan.changed, emptying


def follow(array: Array, told: list[str] | None = None, timeout: float = 60) -> None:
    now = iter(range(10**6))
    with array.management() as api:
        tell = told.append if told is not None else lambda _: None
        removal.follow(api, BUCKET, tell, timeout, sleep=array.slept.append, clock=lambda: next(now))


def test_an_empty_bucket_is_removed(array: Array) -> None:
    array.tell(INFO, THERE)
    assert remove(array) == (True, False)
    assert array.calls == [INFO, deactivate("false")]


def test_a_bucket_that_is_gone_is_no_change(array: Array) -> None:
    array.tell(INFO, GONE)
    assert remove(array, empty=True) == (False, False)


def test_check_mode_removes_nothing(array: Array) -> None:
    array.tell(INFO, THERE)
    assert remove(array, empty=True, check=True) == (True, False)
    assert array.calls == [INFO]


def test_a_bucket_with_objects_is_kept_unless_told_otherwise(array: Array) -> None:
    array.tell(INFO, THERE)
    array.tell(deactivate("false"), error(400, 1020, "bucket is not empty"))
    with pytest.raises(
        InUseError, match="bucket kv of namespace kvlab holds objects, and is kept; .* empty: true"
    ):
        remove(array)


def test_what_holds_a_bucket_that_may_be_emptied_is_told_as_it_is(array: Array) -> None:
    array.tell(INFO, THERE)
    array.tell(deactivate("true"), error(400, 1020, "a copy policy refers to it"))
    with pytest.raises(InUseError, match="a copy policy refers to it"):
        remove(array, empty=True)


def test_emptying_goes_on_behind_the_request(array: Array) -> None:
    array.tell(INFO, THERE)
    array.tell(deactivate("true"), httpx.Response(202))
    assert remove(array, empty=True) == (True, True)


def test_a_bucket_that_a_run_before_began_to_empty_is_not_asked_for_twice(array: Array) -> None:
    array.tell(INFO, THERE | {"is_empty_bucket_in_progress": True})
    assert remove(array, empty=True) == (False, True)
    assert array.calls == [INFO]


def task(status: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "entries_deleted": 0, **more}


def test_the_task_is_followed_to_its_end_with_progress(array: Array) -> None:
    running = task("IN_PROGRESS", entries_deleted=400, approx_object_count=1000)
    array.tell(
        STATUS,
        task("PENDING", approx_object_count=1),
        running,
        task("POST_PROCESSING", entries_deleted=1000),
        task("DONE", entries_deleted=1000),
    )
    array.tell(INFO, GONE)
    told: list[str] = []
    follow(array, told)
    assert told == [
        "bucket kv of namespace kvlab: pending, 0 objects deleted of about 1",
        "bucket kv of namespace kvlab: in progress, 400 objects deleted of about 1000",
        "bucket kv of namespace kvlab: post processing, 1000 objects deleted",
        "bucket kv of namespace kvlab: emptied and removed, 1000 objects deleted",
    ]


def test_a_done_task_is_waited_for_until_the_bucket_is_gone(array: Array) -> None:
    array.tell(STATUS, task("DONE"))
    array.tell(INFO, THERE, THERE, GONE)
    follow(array)
    assert len(array.slept) == 2


@pytest.mark.parametrize("answer", [error(404, 2000), httpx.Response(200, json=task("NOT_FOUND"))])
def test_no_task_any_more_means_the_end_only_if_the_bucket_is_gone(
    array: Array, answer: httpx.Response
) -> None:
    array.tell(STATUS, answer)
    array.tell(INFO, GONE)
    follow(array)
    array.tell(INFO, THERE)
    with pytest.raises(ManagementError, match="nothing empties it; run again"):
        follow(array)


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "ABORT_IN_PROGRESS"])
def test_a_task_that_failed_says_why(array: Array, status: str) -> None:
    array.tell(STATUS, task(status, failed_to_delete_due_to_retention=3, message="stopped"))
    with pytest.raises(ManagementError, match=f"{status}; 3 objects are kept by retention.*; stopped"):
        follow(array)


def test_only_reasons_that_there_are_are_told(array: Array) -> None:
    array.tell(STATUS, task("FAILED", failed_to_delete_due_to_other=1))
    with pytest.raises(ManagementError, match=r"is FAILED; 1 objects could not be deleted$"):
        follow(array)
    array.tell(STATUS, task("FAILED"))
    with pytest.raises(ManagementError, match=r"is FAILED; ask its administrator$"):
        follow(array)


def test_waiting_has_a_limit_after_which_the_array_goes_on(array: Array) -> None:
    array.tell(STATUS, task("IN_PROGRESS", entries_deleted=7))
    with pytest.raises(KvlabError, match=r"not empty after 5 s \(7 objects deleted\); the array goes on"):
        follow(array, timeout=5)
