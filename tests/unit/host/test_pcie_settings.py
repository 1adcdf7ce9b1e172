"""pcie_settings.py: what it changes in bridges and NICs, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "roles/host_base/files/pcie_settings.py"
BRIDGE, END_BRIDGE, NIC, GPU = "0000:5c:00.0", "0000:5d:00.0", "0000:5e:00.0", "0000:5f:00.0"
# A bridge that redirects, one without access control, a NIC with read requests of 512 bytes, a GPU.
FOUND = {
    BRIDGE: ("0x060400", "0x1000", {"ECAP_ACS+6.w": "001d"}),
    END_BRIDGE: ("0x060400", "0x1000", {}),
    NIC: ("0x020000", "0x15b3", {"CAP_EXP+8.w": "2936", "ECAP_ACS+6.w": "001d"}),
    GPU: ("0x030200", "0x10de", {"CAP_EXP+8.w": "2936"}),
}


@dataclass
class Host:
    """A made-up sysfs and the stand-in of setpci."""

    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, PROGRAM, "--sysfs-root", self.folder / "sys", *arguments]
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "KVLAB_STANDINS": str(self.folder),
        }
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def registers(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads((self.folder / "pci.json").read_text())
        return found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/setpci").symlink_to(ROOT / "tests/replica/commands/setpci.py")
    for address, (kind, vendor, _) in FOUND.items():
        device = tmp_path / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "class").write_text(f"{kind}\n")
        (device / "vendor").write_text(f"{vendor}\n")
    registers = {address: registers for address, (_, _, registers) in FOUND.items()}
    (tmp_path / "pci.json").write_text(json.dumps(registers))
    return Host(tmp_path)


def test_what_differs_is_set_and_nothing_else(host: Host) -> None:
    done = host.run("--acs-off", "--max-read-request", "4096")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{BRIDGE} ECAP_ACS+6.w 001d -> 0000",
        f"{NIC} CAP_EXP+8.w 2936 -> 5936",
    ]
    assert host.registers == {
        BRIDGE: {"ECAP_ACS+6.w": "0000"},
        END_BRIDGE: {},
        NIC: {"CAP_EXP+8.w": "5936", "ECAP_ACS+6.w": "001d"},
        GPU: {"CAP_EXP+8.w": "2936"},
    }


def test_a_second_run_finds_nothing_and_writes_nothing(host: Host) -> None:
    host.run("--acs-off", "--max-read-request", "4096")
    (host.folder / "calls.log").unlink()
    again = host.run("--acs-off", "--max-read-request", "4096")
    assert (again.returncode, again.stdout) == (0, "")
    assert "=" not in (host.folder / "calls.log").read_text()


def test_with_check_it_tells_and_writes_nothing(host: Host) -> None:
    before = host.registers
    told = host.run("--acs-off", "--max-read-request", "4096", "--check")
    assert told.returncode == 1
    assert len(told.stdout.splitlines()) == 2
    assert host.registers == before


def test_only_what_is_asked_for_is_looked_at(host: Host) -> None:
    assert host.run("--check").returncode == 0
    assert host.run("--acs-off", "--check").stdout.splitlines() == [f"{BRIDGE} ECAP_ACS+6.w 001d -> 0000"]


@pytest.mark.parametrize("size", ["0", "100", "8192", "-1"])
def test_a_read_request_that_does_not_exist_is_refused(host: Host, size: str) -> None:
    refused = host.run("--max-read-request", size)
    assert refused.returncode == 2
    assert "does not exist; 128, 256, 512" in refused.stderr


def test_a_device_that_cannot_be_read_is_an_error_and_not_left_out(host: Host) -> None:
    registers = host.registers
    del registers[NIC]
    (host.folder / "pci.json").write_text(json.dumps(registers))
    failed = host.run("--max-read-request", "4096")
    assert failed.returncode == 2
    assert NIC in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_host_without_the_devices_has_nothing_to_do(host: Host, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = host.run("--acs-off", "--sysfs-root", str(tmp_path / "empty"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
