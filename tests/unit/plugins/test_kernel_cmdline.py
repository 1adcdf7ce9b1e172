"""kernel_cmdline: what it adds with GRUB and with grubby, what it leaves alone, and when a reboot is due."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import kernel_args

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]

RECORDED = Path(__file__).parents[2] / "fixtures/commands"
PLAIN, PASSTHROUGH = "ubuntu-desktop", "mi300-iommu-pt"


def recorded(name: str) -> str:
    return (RECORDED / "proc_cmdline" / f"{name}.txt").read_text()


def entries(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = kernel_args.grubby_entries(
        (RECORDED / "grubby_info" / f"{name}.txt").read_text()
    )
    return found


class Host:
    """A host with one boot loader, in its folder of stand-ins."""

    def __init__(self, run: Run, state: Path, bootloader: str, running: str = PLAIN) -> None:
        self.state, self.bootloader = state, bootloader
        self.run_module = run
        self.defaults = state / "update-grub/defaults"
        self.defaults.mkdir(parents=True)
        (self.defaults / "grub").write_text(
            'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="audit=1"\n'
        )
        (state / "grubby").mkdir()
        found = [{"kernel": k, "args": " ".join(a)} for k, a in entries("rocky-9.1").items()]
        (state / "grubby/entries.json").write_text(json.dumps(found))
        self.reboot(recorded(running))

    def reboot(self, line: str) -> None:
        (self.state / "cmdline").write_text(line)

    def run(self, *arguments: str, check: bool = False, **options: Any) -> dict[str, Any]:
        fixed = {
            "name": "kvlab",
            "bootloader": self.bootloader,
            "grub_folder": str(self.defaults / "grub.d"),
            "state_folder": str(self.state / "lib"),
            "running": str(self.state / "cmdline"),
        }
        return self.run_module(
            "kernel_cmdline", check=check, **{**fixed, "arguments": list(arguments), **options}
        )

    def boots_with(self) -> list[list[str]]:
        """The arguments of each boot entry."""
        if self.bootloader == "grub":
            return [kernel_args.split((self.state / "update-grub/grub.cfg").read_text())[4:]]
        return [e["args"].split() for e in json.loads((self.state / "grubby/entries.json").read_text())]

    def changes(self) -> list[str]:
        """The calls so far that change something."""
        log = self.state / "calls.log"
        calls = log.read_text().splitlines() if log.exists() else []
        return [call for call in calls if "--info" not in call]


@pytest.fixture(params=["grub", "grubby"])
def host(run: Run, commands: Commands, request: pytest.FixtureRequest) -> Host:
    return Host(run, commands("update-grub", "grubby"), request.param)


@pytest.fixture
def red_hat(run: Run, commands: Commands) -> Host:
    return Host(run, commands("grubby"), "grubby")


def test_recorded_command_lines_are_split_as_the_kernel_splits_them() -> None:
    found = kernel_args.split(recorded(PASSTHROUGH))
    assert found[-3:] == ["modprobe.blacklist=amdgpu", "intel_iommu=on", "iommu=pt"]
    assert "vfio-pci.ids=10ee:5000,10ee:5001" in kernel_args.split(recorded("passthrough"))
    assert kernel_args.split('ro dyndbg="file a.c +p" quiet -- single') == [
        "ro",
        'dyndbg="file a.c +p"',
        "quiet",
    ]


@pytest.mark.parametrize(
    ("wanted", "have", "missing"),
    [
        (["iommu=pt"], recorded(PASSTHROUGH), []),
        (["iommu=pt", "intel_iommu=on"], recorded("passthrough"), ["iommu=pt"]),
        (["vfio_pci.ids=10ee:5000,10ee:5001"], recorded("passthrough"), []),
        (["iommu=pt"], "iommu=pt iommu=soft", ["iommu=pt"]),
        (["iommu=pt"], "iommu=soft iommu=pt", []),
        (["console=tty0", "console=ttyS0"], "console=tty0 console=ttyS0", []),
        (["iommu=pt"], "iommu=pt2 -- iommu=pt", ["iommu=pt"]),
    ],
)
def test_an_argument_is_there_only_when_its_value_is_the_one_that_counts(
    wanted: list[str], have: str, missing: list[str]
) -> None:
    assert kernel_args.missing(wanted, kernel_args.split(have)) == missing


def test_recorded_outputs_of_grubby_are_read_entry_by_entry() -> None:
    rocky, red = entries("rocky-9.1"), entries("rhel-9.1")
    assert list(rocky) == [
        "/boot/vmlinuz-5.14.0-162.6.1.el9_1.x86_64",
        "/boot/vmlinuz-5.14.0-70.30.1.el9_0.x86_64",
    ]
    assert all("crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M" in args for args in rocky.values())
    assert next(iter(red.values()))[-1] == "retbleed=stuff"


def test_arguments_are_added_to_what_is_there_and_a_second_run_changes_nothing(host: Host) -> None:
    before = [["audit=1", "quiet"]] if host.bootloader == "grub" else host.boots_with()
    first = host.run("iommu=pt", "pci=noats")
    assert (first["changed"], first["reboot_required"]) == (True, True)
    assert first["missing"] == ["iommu=pt", "pci=noats"]
    for old, new in zip(before, host.boots_with(), strict=True):
        assert set(new) == {*old, "iommu=pt", "pci=noats"}
    calls = host.changes()
    second = host.run("iommu=pt", "pci=noats")
    assert not second["changed"]
    assert second["reboot_required"], "nobody has rebooted yet"
    assert host.changes() == calls
    host.reboot("BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro iommu=pt pci=noats")
    assert not host.run("iommu=pt", "pci=noats")["reboot_required"]


def test_check_mode_shows_the_difference_and_touches_nothing(host: Host) -> None:
    result = host.run("iommu=pt", check=True)
    assert result["changed"]
    assert result["reboot_required"]
    assert "iommu=pt" in result["diff"]["after"]
    assert "iommu=pt" not in result["diff"]["before"]
    assert host.changes() == []
    assert not (host.defaults / "grub.d").exists()
    assert not (host.state / "lib").exists()


def test_an_argument_that_is_no_longer_wanted_goes_and_others_stay(host: Host) -> None:
    host.run("iommu=pt", "pci=noats")
    result = host.run("iommu=pt")
    assert (result["changed"], result["removed"]) == (True, ["pci=noats"])
    assert all("iommu=pt" in now and "pci=noats" not in now for now in host.boots_with())
    host.reboot("BOOT_IMAGE=/vmlinuz ro iommu=pt")
    gone = host.run(state="absent")
    assert (gone["changed"], gone["removed"], gone["reboot_required"]) == (True, ["iommu=pt"], True)
    assert not any("iommu=pt" in now for now in host.boots_with())
    again = host.run(state="absent")
    assert (again["changed"], again["removed"], again["reboot_required"]) == (False, [], False)


def test_two_owners_do_not_touch_each_other_s_arguments(host: Host) -> None:
    host.run("iommu=pt")
    host.run("pci=noats", name="tuning")
    host.run(name="tuning", state="absent")
    assert all("iommu=pt" in now and "pci=noats" not in now for now in host.boots_with())


def test_grubby_does_not_take_back_what_every_entry_had_before(red_hat: Host) -> None:
    first = red_hat.run("net.ifnames=0", "iommu=pt")
    assert first["changed"]
    red_hat.run(state="absent")
    assert all("net.ifnames=0" in now and "iommu=pt" not in now for now in red_hat.boots_with())


def test_grubby_does_not_replace_a_value_that_somebody_else_set(red_hat: Host) -> None:
    result = red_hat.run("net.ifnames=1")
    assert result["failed"]
    assert "already has net.ifnames=0, which is not kvlab's; remove it by hand" in result["msg"]
    assert red_hat.changes() == []
    own = red_hat.run("hugepages=16")
    assert own["changed"]
    assert red_hat.run("hugepages=32")["removed"] == ["hugepages=16"]
    assert all("hugepages=32" in now and "hugepages=16" not in now for now in red_hat.boots_with())


def test_an_update_of_grub_that_fails_leaves_the_drop_in_as_it_was(run: Run, commands: Commands) -> None:
    host = Host(run, commands("update-grub"), "grub")
    (host.state / "update-grub/fails").write_text("/usr/sbin/grub-probe: error: cannot find a device for /")
    result = host.run("iommu=pt")
    assert result["failed"]
    assert "update-grub ended with 1: /usr/sbin/grub-probe: error: cannot find a device" in result["msg"]
    assert not list((host.defaults / "grub.d").iterdir())
    (host.state / "update-grub/fails").unlink()
    assert host.run("iommu=pt")["changed"]


def test_the_boot_loader_is_found_by_its_command(run: Run, commands: Commands) -> None:
    host = Host(run, commands("update-grub"), "auto")
    assert host.run("iommu=pt", check=True)["bootloader"] == "grub"
    commands("grubby")
    assert host.run("iommu=pt", check=True)["bootloader"] == "grubby"


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        ([], {}, "arguments is empty"),
        (["iommu=pt nomodeset"], {}, "'iommu=pt nomodeset' is no kernel argument: write each by itself"),
        (["a=$(reboot)"], {}, "is no kernel argument"),
        (["=pt"], {}, "is no kernel argument"),
        (["iommu=pt"], {"name": "../kvlab"}, "name '../kvlab' is no file name"),
        (["iommu=pt"], {"running": "/nowhere/cmdline"}, "No such file or directory"),
        (["iommu=pt"], {"bootloader": "grub"}, "update-grub is not on this host; set bootloader"),
    ],
    ids=["none", "two-in-one", "shell", "no-name", "owner", "running", "no-grub"],
)
def test_bad_input_is_one_sentence_and_changes_nothing(
    red_hat: Host, arguments: list[str], options: dict[str, Any], why: str
) -> None:
    result = red_hat.run(*arguments, **options)
    assert result["failed"]
    assert why in result["msg"]
    assert red_hat.changes() == []
    assert not list(red_hat.defaults.glob("grub.d/*"))


def test_a_host_without_boot_entries_is_told_so(red_hat: Host) -> None:
    (red_hat.state / "grubby/entries.json").write_text("[]")
    assert "grubby lists no kernel" in red_hat.run("iommu=pt")["msg"]
    (red_hat.state / "grubby/entries.json").unlink()
    assert "grubby --info=ALL ended with 1: grubby: error: no boot entries" in red_hat.run("iommu=pt")["msg"]
