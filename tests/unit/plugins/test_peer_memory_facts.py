"""How NICs reach GPU memory: what each piece of evidence decides, and what is said when nothing does."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import peer_memory

Run = Callable[..., dict[str, Any]]
OPEN = "NVIDIA UNIX Open Kernel Module for x86_64"
CLOSED = "NVIDIA UNIX x86_64 Kernel Module"
SYMBOL_LINE = "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n"


def found(**changes: Any) -> dict[str, Any]:
    """Evidence of a healthy host with open modules."""
    healthy = {
        "driver": {"version": "590.48.01", "open": True},
        "kernel": "6.8.0-85-generic",
        "kernel_config": {"CONFIG_DMA_SHARED_BUFFER": "y", "CONFIG_PCI_P2PDMA": "y"},
        "symbol": True,
        "peermem": None,
        "peer_clients": [],
        "cuda": {"GPU0": 1},
        "verbs": {"mlx5_0": "yes"},
    }
    return healthy | changes


def host(root: Path, kind: str = OPEN, symbols: str = SYMBOL_LINE, peermem: bool = False) -> dict[str, str]:
    """A made-up host; the roots of its sysfs, proc and boot."""
    version = root / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(f"NVRM version: {kind}  590.48.01  Release Build  (dvs-builder)  \n")
    (root / "proc/kallsyms").write_text(symbols)
    (root / "sys/module").mkdir(parents=True)
    if peermem:
        (root / "sys/module/nvidia_peermem").mkdir()
        (root / "sys/module/nvidia_peermem/version").write_text("590.48.01\n")
        (root / "sys/kernel/mm/memory_peers/nv_mem").mkdir(parents=True)
    return {"sysfs_root": str(root / "sys"), "proc_root": str(root / "proc"), "boot_root": str(root / "boot")}


def test_open_modules_and_the_kernels_symbol_give_dma_buf(run: Run, tmp_path: Path) -> None:
    result = run("peer_memory_facts", **host(tmp_path))
    assert (result["kind"], result["problem"]) == ("dmabuf", None)
    assert result["judged"]["dmabuf"]["for"] == [
        "driver 590.48.01 has open modules",
        "the kernel's RDMA core has ib_umem_dmabuf_get",
    ]
    assert result["evidence"]["verbs"] is None


def test_dma_buf_goes_before_peermem_and_a_wish_before_both(run: Run, tmp_path: Path) -> None:
    roots = host(tmp_path, peermem=True)
    assert run("peer_memory_facts", **roots)["kind"] == "dmabuf"
    assert run("peer_memory_facts", wanted="nvidia_peermem", **roots)["kind"] == "nvidia_peermem"


def test_closed_modules_use_the_peermem_that_is_loaded(run: Run, tmp_path: Path) -> None:
    result = run("peer_memory_facts", **host(tmp_path, CLOSED, peermem=True))
    assert result["kind"] == "nvidia_peermem"
    assert result["judged"]["nvidia_peermem"]["for"] == [
        "nvidia_peermem 590.48.01 is loaded",
        "the RDMA core lists the client nv_mem",
    ]
    assert "closed modules" in result["judged"]["dmabuf"]["against"][0]


def test_a_host_with_neither_is_told_why_in_one_sentence(run: Run, tmp_path: Path) -> None:
    result = run("peer_memory_facts", **host(tmp_path, CLOSED, symbols=""))
    assert result["kind"] is None
    for part in (
        "closed modules",
        "no ib_umem_dmabuf_get",
        "nvidia_peermem is not loaded",
        "Install the driver",
    ):
        assert part in result["problem"]


def test_a_wish_that_the_host_cannot_fulfil_is_refused_though_the_other_kind_is_there() -> None:
    judged = peer_memory.judge(found())
    with pytest.raises(peer_memory.PeerMemoryError, match="nvidia_peermem is not loaded"):
        peer_memory.choose(judged, "nvidia_peermem")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"driver": None}, "the NVIDIA driver is not loaded"),
        ({"kernel_config": {"CONFIG_DMA_SHARED_BUFFER": "n"}}, "built without CONFIG_DMA_SHARED_BUFFER"),
        ({"symbol": False}, "load ib_uverbs"),
        ({"symbol": None, "kernel": "5.10.0-28-amd64"}, "older than 5.12"),
        ({"verbs": {"mlx5_0": "yes", "mlx5_1": "no"}}, "mlx5_1 takes no dma-buf"),
        ({"cuda": {"GPU0": 1, "GPU1": 0}}, "DMA_BUF_SUPPORTED is 0 for GPU1"),
        ({"symbol": None, "verbs": None}, "nothing shows that the kernel takes it"),
    ],
)
def test_each_piece_of_evidence_can_speak_against_dma_buf(changes: dict[str, Any], why: str) -> None:
    judged = peer_memory.judge(found(**changes))["dmabuf"]
    assert not judged["usable"]
    assert why in "; ".join(judged["against"])


def test_a_device_that_takes_dma_buf_is_proof_without_symbols() -> None:
    assert peer_memory.judge(found(symbol=None))["dmabuf"]["usable"]
    unsure = peer_memory.judge(found(symbol=None, verbs={"mlx5_0": "cannot be opened"}))["dmabuf"]
    assert not unsure["usable"]


def test_the_kernels_options_are_read_packed_and_plain(tmp_path: Path) -> None:
    roots = host(tmp_path)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-6.8.0").write_text(
        "CONFIG_DMA_SHARED_BUFFER=y\n# CONFIG_PCI_P2PDMA is not set\n"
    )
    want = {"CONFIG_DMA_SHARED_BUFFER": "y", "CONFIG_PCI_P2PDMA": "n"}
    seen = peer_memory.evidence(roots["sysfs_root"], roots["proc_root"], roots["boot_root"], "6.8.0")
    assert seen["kernel_config"] == want
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_PCI_P2PDMA=y\n"))
    seen = peer_memory.evidence(roots["sysfs_root"], roots["proc_root"], roots["boot_root"], "6.8.0")
    assert seen["kernel_config"] == {"CONFIG_DMA_SHARED_BUFFER": "n", "CONFIG_PCI_P2PDMA": "y"}
