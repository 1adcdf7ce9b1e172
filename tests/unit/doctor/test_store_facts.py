"""What the doctor learns of a quota: from the management API alone, and nothing where nobody could be asked."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.checks import judge
from kvlab.doctor.collect import _with_quota
from kvlab.doctor.store import quota_bytes

BUCKET = {"name": "kv", "objects": 1, "bytes": 990_000_000}


def status(topics: dict[str, Any]) -> str:
    """S3007's verdict about the bucket."""
    (finding,) = judge(_with_quota(topics), ["S3007"])
    return finding.status


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"kv": 1_000_000_000}, "fail"),
        ({"kv": 10_000_000_000}, "pass"),
        ({"kv": None}, "pass"),
        ({}, "inconclusive"),
    ],
)
def test_a_bucket_is_judged_by_the_quota_that_the_array_told(told: dict[str, Any], expected: str) -> None:
    assert status({"s3": {"bucket": BUCKET}, "objectscale": {"quota_bytes": told}}) == expected


def test_a_write_that_was_refused_for_want_of_room_is_named_whatever_the_quota() -> None:
    refused = {"mode": "when_required", "works": False, "failed": "put: 507 InsufficientStorage"}
    facts = {"bucket": {**BUCKET, "quota_bytes": None}, "smoke": [refused]}
    (finding,) = judge({"s3": facts}, ["S3007"])
    assert finding.status == "fail"
    assert "InsufficientStorage" in finding.evidence[0]


def test_without_a_management_api_the_quota_is_not_taken_for_none() -> None:
    assert status({"s3": {"bucket": BUCKET}}) == "inconclusive"
    assert (
        status({"s3": {"bucket": BUCKET}, "objectscale": {"error": "it does not answer"}}) == "inconclusive"
    )


@pytest.mark.parametrize(
    ("block_size", "expected"), [(2, 2_000_000_000), ("2", 2_000_000_000), (-1, None), (None, None)]
)
def test_the_arrays_answer_is_read_in_its_smallest_unit(block_size: object, expected: int | None) -> None:
    assert quota_bytes({"block_size": block_size}) == expected
