"""The witnesses of a profile's tier: what lies there, what moved since a mark, and when nobody counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlab.probes import file_tier
from kvlab.serving import supervisor, tier
from kvlab.serving.lab import Lab

SLOT = 4096
KEY = "obj_0_1f3a.bin@0"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with profile file and an S3 one, in whose log another client reads meanwhile."""
    (tmp_path / "log").write_text("")
    (tmp_path / "kv").mkdir()
    (tmp_path / "kv" / "obj_0_1f3a.bin").write_bytes(b"\x01" * SLOT)
    file = {"name": "file", "file_path": str(tmp_path / "kv"), "direct_io": True, "slot_bytes": SLOT}
    profiles = {"file": file, "s3-http": {"name": "s3-http", "file_path": None, "bucket": "kv-a"}}
    return Lab(tmp_path, {"state_dir": tmp_path, "access_log": tmp_path / "log", "profiles": profiles})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The LMCache server that supervisord and the kernel tell of: its process and its counts."""
    now = {"pid": 10, "read": 100, "written": 50}

    def program(_self: object, name: str) -> supervisor.Program:
        assert name == "lmcache-file"
        return supervisor.Program(name, supervisor.RUNNING, now["pid"], 0, "")

    def moved(pid: int) -> dict[str, int]:
        assert pid == now["pid"] != 0
        return {"read": now["read"], "written": now["written"]}

    monkeypatch.setattr(supervisor.Supervisor, "program", program)
    monkeypatch.setattr(file_tier, "moved", moved)
    return now


def logged(lab: Lab, bucket: str) -> None:
    with Path(lab.data["access_log"]).open("a") as log:
        log.write(json.dumps({"bucket": bucket, "key": "k"}) + "\n")


def test_a_folder_tells_what_the_server_moved_since_the_mark(lab: Lab, server: dict[str, int]) -> None:
    folder = tier.of(lab, "file", None)
    mark = folder.mark()
    server |= {"read": 4196, "written": 50}
    assert folder.since(mark) == {"access_log": [], "file": {"direct_io": True, "read": 4096, "written": 0}}


@pytest.mark.parametrize(("before", "after"), [(10, 11), (10, 0), (0, 10), (0, 0)])
def test_a_server_that_was_not_there_all_the_time_counts_for_nothing(
    lab: Lab, server: dict[str, int], before: int, after: int
) -> None:
    folder = tier.of(lab, "file", None)
    server["pid"] = before
    mark = folder.mark()
    server |= {"pid": after, "read": 10**9}
    assert folder.since(mark)["file"] is None


def test_a_request_to_any_bucket_is_seen_beside_a_folder(lab: Lab, server: dict[str, int]) -> None:
    folder = tier.of(lab, "file", None)
    mark = folder.mark()
    logged(lab, "kv-a")
    assert [r["bucket"] for r in folder.since(mark)["access_log"]] == ["kv-a"]
    assert server["pid"] == 10


def test_what_lies_in_the_folder_can_be_read_and_spoilt(lab: Lab) -> None:
    folder = tier.of(lab, "file", None)
    assert folder.objects() == [{"key": KEY, "size": SLOT}]
    folder.overwrite(KEY, bytes(SLOT))
    assert folder.body(KEY) == bytes(SLOT)


def test_a_bucket_tells_its_own_requests_only_and_no_count_of_files(lab: Lab) -> None:
    bucket = tier.of(lab, "s3-http", None)
    mark = bucket.mark()
    logged(lab, "kv-a")
    logged(lab, "kv-b")
    assert bucket.since(mark) == {"access_log": [{"bucket": "kv-a", "key": "k"}], "file": None}


def test_objects_of_a_bucket_can_be_read_and_spoilt(lab: Lab, object_store: Any) -> None:
    name = object_store.bucket("obj_0", size=7)
    bucket = tier.Bucket(lab, name, object_store.client)
    assert bucket.objects() == [{"key": "obj_0", "size": 7}]
    bucket.overwrite("obj_0", b"spoilt!")
    assert bucket.body("obj_0") == b"spoilt!"
