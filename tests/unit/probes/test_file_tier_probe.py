"""What the folder holds, slot by slot, and what the kernel counted for a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import file_tier

SLOT = 65_536
READER = """
import mmap, os, sys
buffer = mmap.mmap(-1, 65536)
handle = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
os.readv(handle, [buffer])
os.pwrite(handle, buffer, 65536)
os.pwrite(handle, buffer, 131072)
print("ready", flush=True)
sys.stdin.read()
"""


def pool_file(folder: Path, *slots: int, name: str = "obj_0_1f3a.bin") -> Path:
    """A file of a pool in which only these slots were written."""
    file = folder / name
    with file.open("wb") as out:
        for slot in slots:
            out.seek(slot * SLOT)
            out.write(b"\x01" * SLOT)
    return file


def test_only_slots_that_were_written_count_as_stored(tmp_path: Path) -> None:
    pool_file(tmp_path, 1, 4)
    pool_file(tmp_path, 0, name="obj_1_00ff.bin")
    assert file_tier.slots(tmp_path, SLOT) == [
        {"key": f"obj_0_1f3a.bin@{SLOT}", "size": SLOT},
        {"key": f"obj_0_1f3a.bin@{4 * SLOT}", "size": SLOT},
        {"key": "obj_1_00ff.bin@0", "size": SLOT},
    ]


def test_neighbouring_slots_in_one_stretch_of_data_are_told_apart(tmp_path: Path) -> None:
    pool_file(tmp_path, 2, 3)
    assert [s["key"] for s in file_tier.slots(tmp_path, SLOT)] == [
        f"obj_0_1f3a.bin@{2 * SLOT}",
        f"obj_0_1f3a.bin@{3 * SLOT}",
    ]


def test_a_slot_that_was_half_written_is_not_whole(tmp_path: Path) -> None:
    (tmp_path / "obj_7_abcd.bin").write_bytes(bytes(SLOT + SLOT // 2))
    assert [s["size"] for s in file_tier.slots(tmp_path, SLOT)] == [SLOT, SLOT // 2]


def test_files_that_are_not_lmcaches_links_and_an_empty_pool_hold_no_slot(tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(bytes(SLOT))
    (tmp_path / "obj_1_abcd.bin.old").write_bytes(bytes(SLOT))
    (tmp_path / "obj_2_abcd.bin").symlink_to(tmp_path / "notes.bin")
    pool_file(tmp_path)
    assert file_tier.slots(tmp_path, SLOT) == []


def test_a_slot_is_read_and_overwritten_alone(tmp_path: Path) -> None:
    pool_file(tmp_path, 0, 1, 2)
    file_tier.overwrite(tmp_path, f"obj_0_1f3a.bin@{SLOT}", bytes(SLOT))
    assert file_tier.body(tmp_path, f"obj_0_1f3a.bin@{SLOT}", SLOT) == bytes(SLOT)
    for other in (0, 2 * SLOT):
        assert file_tier.body(tmp_path, f"obj_0_1f3a.bin@{other}", SLOT) == b"\x01" * SLOT


def test_the_kernel_counts_direct_io_of_a_process_and_of_its_children(tmp_path: Path) -> None:
    file = pool_file(tmp_path, 0)
    os.sync()
    shell = f"{sys.executable} -c '{READER}' {file}; exit"  # the shell waits, so the reader is its child
    with subprocess.Popen(["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        found = file_tier.moved(parent.pid)
        parent.communicate()
    assert found["read"] >= SLOT
    assert found["written"] >= 2 * SLOT


def test_a_process_that_is_not_there_is_said() -> None:
    with pytest.raises(KvlabError, match="process 0 cannot be read"):
        file_tier.moved(0)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="cannot be read: No such file"):
        file_tier.run({"folder": str(tmp_path / "none"), "slot_bytes": SLOT, "pid": os.getpid()})


def test_the_probe_tells_slots_and_counts_in_one_document(tmp_path: Path) -> None:
    pool_file(tmp_path, 3)
    job = {"folder": str(tmp_path), "slot_bytes": SLOT, "pid": os.getpid(), "simulated": True}
    facts = file_tier.run(job)
    assert facts["simulated"] is True
    assert facts["slots"] == [{"key": f"obj_0_1f3a.bin@{3 * SLOT}", "size": SLOT}]
    assert facts["written"] >= 0
    assert facts["read"] >= 0
