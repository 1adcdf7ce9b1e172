"""What is read of a bare host, by parsers of dpkg, rpm and mokutil and by the module on a made-up host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import package_list, pci_sysfs, secure_boot

FIXTURES = Path(__file__).parents[2] / "fixtures/commands"


def test_a_removed_package_that_left_its_configuration_is_not_installed() -> None:
    found = package_list.parse_dpkg((FIXTURES / "dpkg_query/ubuntu-mixed.txt").read_text())
    assert found["nvidia-fs-dkms"] == "2.19.7~12.4.1-1"
    assert set(found) == {"linux-headers-6.8.0-85-generic", "nvidia-fs-dkms", "mlnx-ofed-all"}


def test_of_several_kernels_rpm_lists_the_last_is_kept() -> None:
    found = package_list.parse_rpm((FIXTURES / "rpm_qa/rhel9-two-kernels.txt").read_text())
    assert found == {"kernel-devel": "5.14.0-503.11.1.el9_5", "nvidia_peer_memory": "1.3-0"}


@pytest.mark.parametrize(
    ("name", "there"), [("forbidden-by-pin", False), ("debian-backports", True), ("none", False)]
)
def test_a_package_can_be_installed_when_apt_has_a_candidate(name: str, there: bool) -> None:
    path = FIXTURES / f"apt_cache_policy/{name}.txt"
    assert package_list.candidate(path.read_text() if path.exists() else "") is there


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("SecureBoot enabled\n", True),
        ("SecureBoot disabled\n", False),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", False),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", False),
        ("EFI variables are not supported on this system\n", False),
        ("Failed to read SecureBoot\n", None),
    ],
)
def test_secure_boot_is_read_of_what_mokutil_says(answer: str, state: bool | None) -> None:
    assert secure_boot.is_on(answer) is state


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("/var/lib/dkms/mok.pub is already enrolled\n", True),
        ("/var/lib/dkms/mok.pub is not enrolled\n", False),
        ("/var/lib/dkms/mok.pub is already in the enrollment request\n", False),
        ("Failed to open key\n", None),
    ],
)
def test_a_key_is_enrolled_only_when_mokutil_says_so(answer: str, state: bool | None) -> None:
    assert secure_boot.is_enrolled(answer) is state


def test_the_key_of_dkms_is_the_one_that_its_configuration_names() -> None:
    assert (
        secure_boot.dkms_key('# mok_certificate=/no\nmok_certificate="/etc/keys/lab.der"\n')
        == "/etc/keys/lab.der"
    )
    assert secure_boot.dkms_key("") == secure_boot.DKMS_KEY


def host(root: Path) -> None:
    """A GPU, a NIC with its interface and a virtual function, and a bond above the interface."""
    for address, vendor, device, kind in (
        ("0000:19:00.0", "0x10de", "0x2330", "0x030200"),
        ("0000:18:00.0", "0x15b3", "0x1021", "0x020000"),
        ("0000:18:00.2", "0x15b3", "0x101e", "0x020000"),
    ):
        home = root / "bus/pci/devices" / address
        home.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("device", device), ("class", kind)):
            (home / name).write_text(text + "\n")
    (root / "bus/pci/devices/0000:18:00.2/physfn").mkdir()
    nic = root / "bus/pci/devices/0000:18:00.0"
    (nic / "net/rail0").mkdir(parents=True)
    (nic / "current_link_speed").write_text("32.0 GT/s PCIe\n")
    (nic / "max_link_speed").write_text("Unknown\n")
    (root / "class/net/bond0/lower_rail0").mkdir(parents=True)
    (root / "class/net/bond0.7/lower_bond0").mkdir(parents=True)
    (root / "kernel/iommu_groups/1").mkdir(parents=True)
    (root / "kernel/iommu_groups/1/type").write_text("DMA-FQ\n")


def test_virtual_functions_are_no_nics_and_an_unknown_speed_is_none(tmp_path: Path) -> None:
    host(tmp_path)
    found = pci_sysfs.devices(tmp_path)
    assert [one["id"] for one in found["gpus"]] == ["10de:2330"]
    (nic,) = found["nics"]
    assert (nic["netdevs"], nic["link"]["speed"], nic["link"]["max_speed"]) == (["rail0"], 32.0, None)


def test_a_vlan_on_a_bond_is_carried_by_the_bonds_ports(tmp_path: Path) -> None:
    host(tmp_path)
    assert pci_sysfs.below(tmp_path, "bond0.7") == ["rail0"]
    assert pci_sysfs.below(tmp_path, "mgmt0") == ["mgmt0"]


def script(tmp_path: Path, name: str, body: str) -> None:
    path = tmp_path / "bin" / name
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)


def test_the_module_tells_all_of_a_host_without_changing_it(run: Any, commands: Any, tmp_path: Path) -> None:
    commands()
    host(tmp_path / "sys")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_text("nv_peer_mem 1 0 - Live 0x0\n")
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-9999.1.0").touch()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "os-release").write_text(
        'ID=rhel\nVERSION_ID="9.4"\nPRETTY_NAME="Red Hat Enterprise Linux 9.4"\n'
    )
    (tmp_path / "key.der").touch()
    script(
        tmp_path,
        "mokutil",
        "import sys; print('SecureBoot enabled' if '--sb-state' in sys.argv else 'k is not enrolled')",
    )
    script(tmp_path, "rpm", "print('nvidia_peer_memory 1.3-0'); print('bash 5.1-1')")
    script(tmp_path, "timedatectl", "print('yes')")
    script(
        tmp_path,
        "ip",
        "import sys\nprint('[{\"dev\": \"bond0\"}]' if 'route' in sys.argv else "
        '\'[{"ifname": "rail0", "addr_info": [{"local": "198.51.100.11", "prefixlen": 24}]}]\')',
    )
    missing = f"file://{tmp_path}/none/"
    facts = run(
        "bare_host_facts",
        check=True,
        urls=[f"file:{tmp_path}/mirror/", missing, "http://127.0.0.1:9/key.pub"],
        url_timeout=2,
        disk=[str(tmp_path), str(tmp_path / "not/yet")],
        module_key=str(tmp_path / "key.der"),
        os_release=str(tmp_path / "os-release"),
        boot_dir=str(tmp_path / "boot"),
        modules_dir=str(tmp_path / "modules"),
        sysfs_root=str(tmp_path / "sys"),
        proc_root=str(tmp_path / "proc"),
    )["facts"]
    assert (facts["os"]["id"], facts["os"]["version"]) == ("rhel", "9.4")
    assert facts["kernel"]["newest_installed"] == "9999.1.0"
    assert facts["kernel"]["headers_package"].startswith("kernel-devel-")
    assert (facts["secure_boot"]["on"], facts["secure_boot"]["enrolled"]) == (True, False)
    assert facts["packages"] == {"nvidia_peer_memory": "1.3-0"}
    assert facts["modules"] == ["nv_peer_mem"]
    assert facts["network"]["addresses"] == {"rail0": ["198.51.100.11/24"]}
    assert facts["network"]["management"] == {
        "interface": "bond0",
        "why": "the default route",
        "carried_by": ["rail0"],
    }
    assert [one["problem"] is None for one in facts["urls"]] == [True, False, False]
    assert "nothing answers" in facts["urls"][2]["problem"]
    assert len({one["file_system"] for one in facts["disk"]}) == 1
    assert facts["iommu_groups"] == {"DMA-FQ": 1}
    assert facts["clock"] == {"synchronised": True}
