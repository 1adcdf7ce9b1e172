"""What kvlab mirror lists of package repositories is what the roles would install from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab.errors import KvlabError
from kvlab.mirror import systems

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    return systems.ask(ROOT, "dell-fixed", ROOT / "stacks", None)


def defaults(role: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())
    return values


def repository(system: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [one for one in system["repositories"] if one["name"] == name]
    return dict(one)


def test_every_operating_system_that_the_roles_know_is_listed(found: list[dict[str, Any]]) -> None:
    known = {path.stem for path in (ROOT / "roles/doca_ofed/vars").glob("*_*.yml")}
    assert {one["system"] for one in found} == known == set(systems.TITLES)


def test_versions_are_those_of_the_roles_and_of_the_stack(found: list[dict[str, Any]]) -> None:
    driver, host = (
        defaults("nvidia_driver")["nvidia_driver_version"],
        yaml.safe_load((ROOT / "stacks/dell-fixed.yml").read_text())["host"],
    )
    for system in found:
        packages = {one["name"]: one["version"] for one in repository(system, "cuda")["packages"]}
        assert packages["nvidia-open"] == packages["nvidia-fabricmanager"] == driver
        assert packages.items() >= host.items()
        assert ("nvidia-driver-pinning-" + driver in packages) == (not system["system"].startswith("RedHat"))
        doca = repository(system, "doca")
        assert doca["packages"] == [
            {"name": "doca-ofed", "version": defaults("doca_ofed")["doca_ofed_version"]}
        ]
        assert doca["key_url"] == defaults("doca_ofed")["doca_ofed_key_url"]


def test_the_variables_named_for_a_mirror_exist(found: list[dict[str, Any]]) -> None:
    known = defaults("cuda_repository") | defaults("doca_ofed")
    named = {name for system in found for one in system["repositories"] for name in one["variables"].values()}
    assert len(named) == 6
    assert named <= set(known)


def test_a_labs_own_variables_decide(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump(
            {
                "gpu_hosts": {
                    "hosts": {"one": {"ansible_host": "192.0.2.1", "ansible_become": True}},
                    "vars": {"nvidia_driver_version": "595.45.04", "doca_ofed_rdma_stack": "inbox",
                             "cuda_repository_url": "http://mirror.example.invalid/cuda/"},
                }
            }
        )
    )  # fmt: skip
    for system in systems.ask(ROOT, "dell-fixed", ROOT / "stacks", tmp_path / "hosts.yml"):
        (cuda,) = system["repositories"]
        assert cuda["url"] == "http://mirror.example.invalid/cuda/"
        assert {"name": "nvidia-open", "version": "595.45.04"} in cuda["packages"]
        assert "rdma-core" in system["distribution"]


def test_an_inventory_without_gpu_hosts_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {one: {}}}\n")
    with pytest.raises(KvlabError, match="needs a host in gpu_hosts") as refused:
        systems.ask(ROOT, "dell-fixed", ROOT / "stacks", tmp_path / "hosts.yml")
    assert "\n" not in str(refused.value)


def test_the_text_names_each_package_its_repository_its_key_and_the_variables(
    found: list[dict[str, Any]],
) -> None:
    text = systems.readable(
        found, {"nixl-cu13": {"tag": "1.1.0", "repository": "https://example.invalid/nixl"}}
    )
    for system in found:
        for one in system["repositories"]:
            assert all(word in text for word in (one["url"], one["key_url"], *one["variables"].values()))
            assert all(f"    {p['name']} {p['version']}".rstrip() + "\n" in text for p in one["packages"])
    assert "nixl-cu13 1.1.0 from https://example.invalid/nixl" in text
