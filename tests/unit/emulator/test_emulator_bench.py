"""The benchmark: that it runs, compares the right way round, and says what falls short. Nothing here is timed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kvlab.emulator import bench, bench_floor
from kvlab.emulator.bench_client import main as client_main

GOOD: dict[str, Any] = {
    "ratios": dict.fromkeys(bench.TARGETS, 1.0),
    "vs_moto": {"http_get_32MiB": 1.5, "http_put_32MiB": None, "http_get_4KiB": 2.0},
    "rdma_get_1MiB_per_second": 500.0,
    "list_10000_seconds": 1.0,
    "resident_mb": 60.0,
}


def test_a_ratio_is_the_emulators_rate_over_the_floors() -> None:
    series = bench.Series({"floor": [1.0, 1.0, 9.0], "emulator": [2.0, 2.0, 2.0]})
    assert series.over("floor", "emulator") == 0.5
    assert series.over("moto", "emulator") is None


def test_nothing_is_missed_when_all_figures_are_met() -> None:
    assert bench.misses(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ratios": GOOD["ratios"] | {"http_put_32MiB": 0.34}}, "http_put_32MiB is 0.34 of its floor"),
        ({"vs_moto": GOOD["vs_moto"] | {"http_get_4KiB": 1.0}}, "http_get_4KiB runs at 1.0 of moto's rate"),
        ({"rdma_get_1MiB_per_second": 449.9}, "449.9 one-sided GETs"),
        ({"list_10000_seconds": 2.0}, "listing takes 2.0 s"),
        ({"resident_mb": 250.0}, "resident memory is 250.0 MB"),
    ],
)
def test_each_figure_that_falls_short_is_said(change: dict[str, Any], said: str) -> None:
    missed = bench.misses(GOOD | change)
    assert len(missed) == 1
    assert missed[0].startswith(said)


def test_the_floor_server_gives_back_what_was_put(tmp_path: Path) -> None:
    with bench.process([sys.executable, "-m", "kvlab.emulator.bench_floor", str(tmp_path)]) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/bucket/key"
        data = os.urandom(3 << 20)
        with urllib.request.urlopen(urllib.request.Request(url, data, method="PUT"), timeout=20) as reply:
            assert reply.status == 200
        with urllib.request.urlopen(url, timeout=20) as reply:
            assert reply.read() == data


def test_the_floors_of_one_sided_transfers_move_the_bytes(tmp_path: Path) -> None:
    import ctypes

    size = (2 << 20) + 5
    mine, other = ctypes.create_string_buffer(os.urandom(size), size), ctypes.create_string_buffer(size)
    here, there = ctypes.addressof(mine), ctypes.addressof(other)
    bench_floor.one_sided_get(os.getpid(), here, there, size)
    assert other.raw == mine.raw
    ctypes.memset(here, 0, size)
    bench_floor.one_sided_put(os.getpid(), here, there, size, tmp_path)
    assert (tmp_path / "object").read_bytes() == other.raw
    with pytest.raises(OSError, match="Bad address"):
        bench_floor.one_sided_get(os.getpid(), 1, there, size)


def test_a_short_run_yields_every_figure_and_says_it_is_simulated(tmp_path: Path) -> None:
    said: list[str] = []
    result = bench.run(bench.Settings(folder=tmp_path, rounds=1, listed=30), said.append)
    assert "everything is simulated" in said[0]
    assert result["simulated"] is True
    assert result["one_sided_client"] == "python"
    assert set(result["ratios"]) == set(bench.TARGETS)
    assert all(ratio > 0 for ratio in result["ratios"].values())
    assert set(result["vs_moto"]) == {"http_get_32MiB", "http_put_32MiB", "http_get_4KiB"}
    assert result["resident_mb"] > 10
    json.dumps(result)
    assert not list(tmp_path.iterdir()), "the benchmark leaves nothing behind"


def test_the_one_sided_client_fails_when_the_bytes_do_not_come_one_sided(emulator: Any) -> None:
    emulator.client().create_bucket(Bucket="bench")
    job = {
        "endpoint": emulator.url,
        "bucket": "bench",
        "access_key": "kvlab",
        "secret_key": "first/secret+1",
        "size": 10,
    }
    orders = [json.dumps(job), json.dumps({"op": "read", "key": "none", "size": 10})]
    done = subprocess.run(
        [sys.executable, "-m", client_main.__module__, "python"],
        input="\n".join(orders) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "read of none ended as 404" in done.stderr
