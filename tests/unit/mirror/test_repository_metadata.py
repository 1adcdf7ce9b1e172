"""What the roles ask for is what public extracts of the vendors' repositories show, where there are any."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab.mirror import systems

ROOT = Path(__file__).parents[3]
EXTRACTS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((ROOT / "tests/fixtures/repositories").glob("*.yml"))
}
STACKS = ("dell-fixed", "dell-2026-05")


@functools.cache
def asked(stack: str) -> list[dict[str, Any]]:
    return systems.ask(ROOT, stack, ROOT / "stacks", None)


def wanted(stack: str, extract: dict[str, Any]) -> dict[str, str]:
    """Name and version of each package that a role takes from the extract's repository."""
    return {
        package["name"]: package["version"]
        for system in asked(stack)
        if system["system"] in extract["systems"]
        for repository in system["repositories"]
        if repository["name"] == extract["repository"]
        for package in repository["packages"]
    }


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", EXTRACTS)
def test_every_package_that_is_asked_for_is_in_the_extract(name: str, stack: str) -> None:
    extract = EXTRACTS[name]
    packages = wanted(stack, extract)
    assert packages
    assert set(packages) <= set(extract["versions"])
    assert not set(packages) & set(extract["absent"])


DRIVER = {"nvidia-open", "nvidia-fabricmanager"}
"""Of these the RPM list has another branch, and the fabric manager's is not shown for 590 on Ubuntu."""


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", EXTRACTS)
def test_the_version_is_there_wherever_the_extract_shows_versions(name: str, stack: str) -> None:
    extract, compared = EXTRACTS[name], 0
    for package, version in wanted(stack, extract).items():
        shown = extract["versions"][package]
        if (
            not shown
            or not version
            or (package in DRIVER and not any(one.startswith(version) for one in shown))
        ):
            continue
        compared += 1
        # As apt and dnf are asked: VERSION-*.
        assert any(re.match(re.escape(version) + "-", one) for one in shown), (package, version, shown)
    assert compared >= {"cuda-rpm": 4, "cuda-ubuntu2404": 1}.get(name, 0)


def test_the_driver_of_the_role_is_shown_for_ubuntu_with_its_pin() -> None:
    driver = yaml.safe_load((ROOT / "roles/nvidia_driver/defaults/main.yml").read_text())[
        "nvidia_driver_version"
    ]
    extract = EXTRACTS["cuda-ubuntu2404"]
    assert f"{driver}-0ubuntu1" in extract["versions"]["nvidia-open"]
    assert f"nvidia-driver-pinning-{driver}" in extract["versions"]
    # nvidia-open alone takes the newest driver, so the pin must be installed by a task before it.
    assert ">=" in extract["depends"]["nvidia-open"]
    tasks = yaml.safe_load((ROOT / "roles/nvidia_driver/tasks/apt.yml").read_text())[0]["block"]
    names = [str(task.get("ansible.builtin.apt", {}).get("name", "")) for task in tasks]
    (pin,) = [number for number, name in enumerate(names) if "nvidia-driver-pinning-" in name]
    (install,) = [number for number, name in enumerate(names) if "__nvidia_driver_wanted" in name]
    assert pin < install


def test_docas_kernel_package_is_of_the_ofed_that_the_role_verifies() -> None:
    table = yaml.safe_load((ROOT / "roles/doca_ofed/vars/main.yml").read_text())["__doca_ofed_mlnx_versions"]
    version = yaml.safe_load((ROOT / "roles/doca_ofed/defaults/main.yml").read_text())["doca_ofed_version"]
    branch, _, build = table[version].partition("-")
    (shown,) = EXTRACTS["doca-3.2.1-ubuntu2404"]["versions"]["mlnx-ofed-kernel-dkms"]
    assert shown.startswith(f"{branch}.OFED.{branch}.{build}.")


def test_pages_say_for_which_systems_there_is_no_extract() -> None:
    page = (ROOT / "docs/provisioning-sources.md").read_text()
    covered = {system for extract in EXTRACTS.values() for system in extract["systems"]}
    without = {systems.TITLES[name] for name in systems.TITLES if name not in covered}
    assert without == {"Debian 12", "Ubuntu 22.04"}
    line = next(line for line in page.splitlines() if line.startswith("No extract was found for "))
    assert all(title in line for title in without)
