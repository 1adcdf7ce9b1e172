"""gpu_topology_facts: matrices of real machines, the NIC each GPU gets, and what is warned of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import gpu_topology
from fake_sysfs import Device, Port, nic

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]

MATRICES = Path(__file__).parents[2] / "fixtures/commands/nvidia_smi_topo"
SHAPES = {  # GPUs and NICs
    "xe9680-h100": (8, 12),
    "hgx-b300": (8, 9),
    "h200-bond": (8, 9),
    "8xa100": (8, 10),
    "dgx2-first-four": (4, 4),
    "gb10": (1, 4),
    "4gpu-no-nic": (4, 0),
}


def matrix(name: str) -> str:
    return (MATRICES / f"{name}.txt").read_text()


def parsed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = gpu_topology.parse(matrix(name))
    return found


def facts(run: Run, commands: Commands, name: str, devices: list[Device], **arguments: Any) -> dict[str, Any]:
    """The module's result on a host with this matrix and these devices."""
    state = commands("nvidia-smi")
    (state / "nvidia-smi").mkdir()
    (state / "nvidia-smi/topo.txt").write_text(matrix(name) if name else "")
    sysfs = fake_sysfs.write(state / "sys", devices)
    return run("gpu_topology_facts", sysfs_root=str(sysfs), **arguments)


def healthy(names: list[str]) -> list[Device]:
    return [nic(name, f"ens{at}np0", f"192.0.2.{at + 1}", at + 1) for at, name in enumerate(names)]


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_a_matrix_of_a_real_machine_is_read_whole(name: str, shape: tuple[int, int]) -> None:
    found = parsed(name)
    assert (len(found["gpus"]), len(found["nics"])) == shape
    assert all(sorted(row) == sorted(found["nics"]) for row in found["links"].values())
    assert not any(nic_name.startswith("NIC") for nic_name in found["nics"])


def test_affinity_is_read_with_and_without_its_newer_columns() -> None:
    assert parsed("xe9680-h100")["gpus"][4] == {"gpu": "GPU4", "cpu_affinity": "1,3,5,7,9,11", "numa_node": 1}
    assert parsed("8xa100")["gpus"][2] == {"gpu": "GPU2", "cpu_affinity": "16-31,144-159", "numa_node": 1}
    assert parsed("dgx2-first-four")["gpus"][0] == {
        "gpu": "GPU0",
        "cpu_affinity": "0-23,48-71",
        "numa_node": None,
    }


def test_an_underlined_header_and_a_legend_that_does_not_start_at_zero_are_read() -> None:
    links = parsed("hgx-b300")["links"]
    assert links["GPU5"]["mlx5_15"] == "PXB"
    assert links["GPU5"]["mlx5_bond_0"] == "NODE"
    assert links["GPU0"]["mlx5_bond_0"] == "SYS"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (matrix("dgx-h100-cut"), "no legend for NIC0, NIC1"),
        (
            matrix("4gpu-no-nic").partition("GPU3\tSYS")[0],
            "the row of GPU3 has 0 cells for 4 columns",
        ),
        (matrix("soc-2017"), "unknown distance SOC"),
        ("", "no header line"),
        ("Unable to determine the device handle for GPU0000:19:00.0: Unknown Error\n", "no header line"),
    ],
    ids=["no-legend", "no-row", "soc", "empty", "lost-gpu"],
)
def test_a_matrix_that_is_cut_or_strange_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(gpu_topology.TopologyError, match=why):
        gpu_topology.parse(text)


@pytest.mark.parametrize(
    ("name", "distance"),
    [("xe9680-h100", "PIX"), ("hgx-b300", "PXB"), ("h200-bond", "PIX"), ("8xa100", "PXB")],
)
def test_eight_gpus_get_eight_nics_each_at_the_smallest_distance(name: str, distance: str) -> None:
    found = parsed(name)
    assigned = gpu_topology.assign(found["links"], found["nics"])
    assert {distance} == {far for _, far in assigned.values()}
    assert all(found["links"][gpu][chosen] == distance for gpu, (chosen, _) in assigned.items())
    assert max(Counter(chosen for chosen, _ in assigned.values()).values()) == 1


def test_two_gpus_below_one_switch_with_one_nic_share_it() -> None:
    found = parsed("dgx2-first-four")
    assigned = gpu_topology.assign(found["links"], found["nics"])
    assert [chosen for chosen, _ in assigned.values()] == ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]


def test_a_gpu_with_one_choice_is_served_before_one_with_two() -> None:
    links = {"GPU0": {"a": "PIX", "b": "PIX"}, "GPU1": {"a": "PIX", "b": "NODE"}}
    assert gpu_topology.assign(links, ["a", "b"]) == {"GPU0": ("b", "PIX"), "GPU1": ("a", "PIX")}


def test_each_gpu_of_an_xe9680_gets_its_nic_with_netdev_address_and_gid(run: Run, commands: Commands) -> None:
    result = facts(run, commands, "xe9680-h100", healthy([f"mlx5_{n}" for n in range(12)]))
    assert not result["changed"]
    assert result["problems"] == []
    assert [gpu["nic"] for gpu in result["gpus"]] == [f"mlx5_{n}" for n in (0, 3, 4, 5, 6, 9, 10, 11)]
    assert result["rdma_dev_addr_list"] == [f"192.0.2.{n}" for n in (1, 4, 5, 6, 7, 10, 11, 12)]
    assert result["gpus"][7] == {
        "gpu": "GPU7",
        "cpu_affinity": "1,3,5,7,9,11",
        "numa_node": 1,
        "nic": "mlx5_11",
        "distance": "PIX",
        "port": 1,
        "netdev": "ens11np0",
        "address": "192.0.2.12",
        "gid_index": 3,
    }


def test_a_nearer_nic_that_is_down_or_has_no_address_is_named_with_the_reason(
    run: Run, commands: Commands
) -> None:
    devices = healthy([f"mlx5_{n}" for n in range(12)])
    for bad in (nic("mlx5_3", "ens3np0", "192.0.2.4", 4, state="1: DOWN"), nic("mlx5_4", "ens4np0", None, 5)):
        devices = [bad if device.name == bad.name else device for device in devices]
    result = facts(run, commands, "xe9680-h100", devices)
    assert result["gpus"][1]["distance"] == result["gpus"][2]["distance"] == "NODE"
    assert result["gpus"][1]["nic"] != result["gpus"][2]["nic"], "ties are spread"
    down, bare = result["problems"]
    assert down.startswith(
        "GPU1 has a nearer NIC (PIX) that cannot be used, mlx5_3: its port 1 is DOWN; mlx5_"
    )
    assert "GPU2" in bare
    assert "give ens4np0 an address" in bare
    assert {"nic": "mlx5_3", "usable": False, "reason": "its port 1 is DOWN"} in result["nics"]


def test_a_gpu_that_reaches_its_nic_only_across_the_cpus_is_warned_of(run: Run, commands: Commands) -> None:
    result = facts(run, commands, "xe9680-h100", healthy([f"mlx5_{n}" for n in range(6)]))
    assert [gpu["distance"] for gpu in result["gpus"]] == ["PIX"] * 4 + ["SYS"] * 4
    across = [problem for problem in result["problems"] if "interconnect between CPUs (SYS)" in problem]
    assert [problem.split()[0] for problem in across] == ["GPU4", "GPU5", "GPU6", "GPU7"]
    assert "warnings" in result, "each is a warning too"
    assert "no RDMA device of this name" in next(n["reason"] for n in result["nics"] if n["nic"] == "mlx5_9")


@pytest.mark.parametrize("exclude", ["mlx5_bond_0", "bond0"])
def test_a_management_bond_is_left_out_by_device_or_netdev(
    run: Run, commands: Commands, exclude: str
) -> None:
    # The bond is the only NIC that is up: excluding it leaves nothing, and that is said.
    bond = Device(
        "mlx5_bond_0", "0000:09:00.0", ("ens9f0np0",), {1: Port(fake_sysfs.table("bond0", "198.51.100.7"))}
    )
    used = facts(run, commands, "h200-bond", [bond])
    assert used["rdma_dev_addr_list"] == ["198.51.100.7"]
    sysfs = Path(commands()) / "sys"
    left_out = run("gpu_topology_facts", sysfs_root=str(sysfs), exclude=[exclude])
    assert left_out["rdma_dev_addr_list"] == []
    assert all(gpu["nic"] is None and gpu["address"] is None for gpu in left_out["gpus"])
    assert "cuObject uses HTTP in silence" in left_out["problems"][-1]


def test_only_addresses_in_the_given_networks_are_taken(run: Run, commands: Commands) -> None:
    devices = [
        nic("rocep1s0f0", "enp1s0f0np0", "198.51.100.1", 1),
        nic("rocep1s0f1", "enp1s0f1np1", "192.0.2.9", 2),
    ]
    result = facts(run, commands, "gb10", devices, networks=["192.0.2.0/24"])
    assert result["rdma_dev_addr_list"] == ["192.0.2.9"]
    reason = next(found["reason"] for found in result["nics"] if found["nic"] == "rocep1s0f0")
    assert reason == "no address of enp1s0f0np0 is in 192.0.2.0/24"


def test_a_host_without_gpu_or_without_nic_is_a_fact_and_no_failure(run: Run, commands: Commands) -> None:
    none = facts(run, commands, "", [])
    assert (none["gpus"], none["rdma_dev_addr_list"]) == ([], [])
    assert none["problems"] == []
    (commands() / "nvidia-smi/topo.txt").write_text(matrix("4gpu-no-nic"))
    bare = run("gpu_topology_facts", sysfs_root=str(commands() / "sys"))
    assert [gpu["nic"] for gpu in bare["gpus"]] == [None] * 4
    assert "rdma_dev_addr_list is empty" in bare["problems"][0]


def test_a_broken_or_missing_driver_and_bad_options_are_one_sentence(run: Run, commands: Commands) -> None:
    assert "nvidia-smi is not on this host" in run("gpu_topology_facts")["msg"]
    commands("nvidia-smi")
    broken = run("gpu_topology_facts")
    assert broken["failed"]
    assert "ended with 9: NVIDIA-SMI has failed because it couldn't communicate" in broken["msg"]
    result = facts_again(run, commands, sysfs_root="/nowhere")
    assert result["msg"].startswith("/nowhere has no folder class")
    sysfs = fake_sysfs.write(commands() / "sys", healthy(["mlx5_0"]))
    result = facts_again(run, commands, sysfs_root=str(sysfs), networks=["10.0.0.1/8"])
    assert result["msg"].startswith("'10.0.0.1/8' is no network: 10.0.0.1/8 has host bits set")


def facts_again(run: Run, commands: Commands, **arguments: Any) -> dict[str, Any]:
    """On a host with the stand-in in place, the XE9680's matrix."""
    (commands() / "nvidia-smi").mkdir(exist_ok=True)
    (commands() / "nvidia-smi/topo.txt").write_text(matrix("xe9680-h100"))
    result = run("gpu_topology_facts", **arguments)
    assert result["failed"]
    return result
