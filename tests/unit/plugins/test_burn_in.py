"""What burn-in reads of nvidia-smi, the kernel's log, DCGM and perftest, and whom a slow rail counts against."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import gpu_health, perftest

from kvlab import checks

HEAD = " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
ROW = " 65536      664644           0.00               {average}              0.371000\n"


def output(unit: str, average: str) -> str:
    return HEAD.format(unit=unit) + ROW.format(average=average)


def test_a_bandwidth_in_another_unit_is_no_result() -> None:
    assert perftest.average_gbits(output("Gb/sec", "196.25")) == 196.25
    assert perftest.average_gbits(output("MB/sec", "23400.12")) is None
    assert perftest.average_gbits("Couldn't connect to 192.0.2.1:18515\n") is None


def test_xids_are_told_once_by_gpu_and_code() -> None:
    line = "[ 1.0] NVRM: Xid (PCI:0000:19:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"
    assert gpu_health.xids(line + line) == [{"address": "0000:19:00", "code": 79}]


@pytest.mark.parametrize("release", ["DCGM GPU Diagnostic", "DCGM Diagnostic"])
def test_the_worst_result_of_a_dcgm_test_counts_in_either_release(release: str) -> None:
    test = {"name": "PCIe", "results": [{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "1", "status": "Fail"}]}
    document = {release: {"test_categories": [{"category": "Integration", "tests": [test]}]}}
    assert gpu_health.parse_dcgm(json.dumps(document)) == [{"test": "PCIe", "status": "Fail", "detail": ""}]
    with pytest.raises(gpu_health.HealthError, match="no result"):
        gpu_health.parse_dcgm("Error: unable to connect to host engine")


def test_a_row_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(gpu_health.HealthError, match="Unable"):
        gpu_health.parse_csv("Unable to determine the device handle\n", gpu_health.ECC_FIELDS)


def test_one_bad_host_among_three_is_named_and_the_others_are_not() -> None:
    names = ("a", "b", "c")
    measured = [
        {"client": x, "server": y, "rail": 0, "gbits": 90.0 if "c" in (x, y) else 196.0, "problem": None}
        for x in names
        for y in names
        if x != y
    ]
    found = {
        host: checks.judge(
            {"burn_in_rails": {"host": host, "floor_gbits": 180.0, "measured": measured}}, ["HOST044"]
        )[0]
        for host in names
    }
    assert {host: one.status for host, one in found.items()} == {"a": "pass", "b": "pass", "c": "fail"}


def client(run: Any, tmp_path: Path, body: str, **more: Any) -> dict[str, Any]:
    sysfs = fake_sysfs.write(tmp_path / "sys", [fake_sysfs.nic("mlx5_0", "rail0", "198.51.100.11")])
    path = tmp_path / "bin/ib_write_bw"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    result: dict[str, Any] = run(
        "ib_write_bw", device="mlx5_0", server="198.51.100.12", sysfs_root=str(sysfs), **more
    )
    return result


def test_a_client_computes_its_gid_and_tells_the_average(run: Any, commands: Any, tmp_path: Path) -> None:
    commands()
    body = (
        f"import sys; assert sys.argv[sys.argv.index('-x') + 1] == '3'; print({output('Gb/sec', '196.25')!r})"
    )
    assert client(run, tmp_path, body)["gbits"] == 196.25


def test_an_end_that_does_not_end_is_ended_and_told(run: Any, commands: Any, tmp_path: Path) -> None:
    commands()
    found = client(run, tmp_path, "import time; time.sleep(60)", timeout=1)
    assert found["gbits"] is None
    assert "did not end within 1 s" in found["problem"]
