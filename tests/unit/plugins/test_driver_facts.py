"""What is read of kernel modules, DKMS and the NVIDIA driver, on the stand-ins and on retyped outputs."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import dkms_status, kernel_modules, nvidia_driver

FIXTURES = Path(__file__).parents[2] / "fixtures/commands"
SYMBOL = "ib_register_peer_memory_client"


def test_dkms_status_of_a_host_with_doca_is_read() -> None:
    found = dkms_status.parse((FIXTURES / "dkms_status/doca-3.2.1.txt").read_text())
    assert [(entry["module"], entry["version"], entry["state"]) for entry in found] == [
        ("mlnx-ofed-kernel", "25.10.OFED.25.10.1.7.1.1", "installed"),
        ("nvidia", "580.126.16", "installed"),
    ]


def test_dkms_2_writes_a_comma_and_a_warning_is_kept() -> None:
    (entry,) = dkms_status.parse(
        "nvidia, 535.54.03, 5.4.0-1-amd64, x86_64: installed (WARNING! Diff between built and installed module!)\n"
    )
    assert (entry["module"], entry["kernel"]) == ("nvidia", "5.4.0-1-amd64")
    assert entry["note"].startswith("(WARNING! Diff")


def test_a_line_that_dkms_does_not_write_is_refused() -> None:
    with pytest.raises(dkms_status.DkmsError, match="Segmentation fault"):
        dkms_status.parse("Segmentation fault\n")


@pytest.mark.parametrize(
    ("running", "disk", "stale"),
    [
        ({"version": "1", "srcversion": "A"}, {"version": "1", "srcversion": "A"}, False),
        ({"version": "1", "srcversion": "A"}, {"version": "1", "srcversion": "B"}, True),
        ({"version": None, "srcversion": None}, {"version": "25.10", "srcversion": "B"}, True),
        ({"version": None, "srcversion": None}, {"version": None, "srcversion": None}, False),
        (None, {"version": "1", "srcversion": "A"}, False),
    ],
)
def test_a_loaded_module_is_stale_when_the_file_is_another(
    running: dict[str, Any] | None, disk: dict[str, Any], stale: bool
) -> None:
    assert kernel_modules.is_stale(running, disk) is stale


def test_the_version_in_the_kernel_is_read_of_open_and_closed_modules(tmp_path: Path) -> None:
    file = tmp_path / "driver/nvidia/version"
    file.parent.mkdir(parents=True)
    for kind in ("Open Kernel Module for x86_64", "x86_64 Kernel Module"):
        file.write_text(f"NVRM version: NVIDIA UNIX {kind}  590.48.01  Release Build  (dvs-builder)  \n")
        assert nvidia_driver.loaded_version(tmp_path) == "590.48.01"
    assert nvidia_driver.loaded_version(tmp_path / "none") is None


def test_gpus_and_nvswitches_are_known_by_their_pci_class(tmp_path: Path) -> None:
    for address, vendor, kind in (
        ("0000:19:00.0", "0x10de", "0x030200"),
        ("0000:05:00.0", "0x10de", "0x068000"),
        ("0000:03:00.0", "0x15b3", "0x020000"),
        ("0000:19:00.1", "0x10de", "0x040300"),
    ):
        home = tmp_path / "bus/pci/devices" / address
        home.mkdir(parents=True)
        (home / "vendor").write_text(vendor + "\n")
        (home / "class").write_text(kind + "\n")
    assert nvidia_driver.devices(tmp_path) == {"gpus": ["0000:19:00.0"], "nvswitches": ["0000:05:00.0"]}


def test_a_module_says_against_which_ofed_it_was_compiled(
    run: Any, commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_STANDINS_ROOT", str(tmp_path))
    state = commands("modinfo", "modprobe")
    home = tmp_path / "lib/modules" / platform.release() / "updates/dkms"
    home.mkdir(parents=True)
    about = {
        "version": "590.48.01",
        "srcversion": "B",
        "license": "Dual BSD/GPL",
        "modversions": {SYMBOL: "0x1"},
    }
    (home / "nvidia-peermem.ko").write_text(json.dumps(about))
    loaded = state / "sysfs/module/nvidia_peermem"
    (loaded / "holders").mkdir(parents=True)
    (loaded / "srcversion").write_text("A\n")
    symvers = tmp_path / "Module.symvers"
    symvers.write_text(f"0x2\t{SYMBOL}\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n")
    # modprobe is asked for the path that modinfo names, which the stand-in takes below its root.
    result = run(
        "kernel_module_facts",
        modules=["nvidia-peermem", "nvidia"],
        symbols=[SYMBOL],
        symvers=str(symvers),
        sysfs_root=str(state / "sysfs"),
    )
    peermem = result["modules"]["nvidia-peermem"]
    assert peermem["symbols"] == {SYMBOL: "0x1"}
    assert result["exports"] == {SYMBOL: "0x2"}
    assert peermem["stale"]
    assert result["modules"]["nvidia"]["disk"] is None
