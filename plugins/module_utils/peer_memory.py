# SPDX-License-Identifier: Apache-2.0
"""How a NIC reaches GPU memory: dma-buf or nvidia-peermem, told from what the host shows. Standard library only.

Sources: facts/provisioning.md 2.5; NVIDIA's cuObject documentation for the two words of `rdma_peer_type`.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from ansible_collections.kvlab.lab.plugins.module_utils import kernel_modules, nvidia_driver

DMABUF, PEERMEM = "dmabuf", "nvidia_peermem"

# What registers memory by dma-buf in the kernel's RDMA core, and the option without which nothing exports any.
SYMBOL = "ib_umem_dmabuf_get"
OPTIONS = ("CONFIG_DMA_SHARED_BUFFER", "CONFIG_PCI_P2PDMA")
FIRST_KERNEL = (5, 12)


class PeerMemoryError(Exception):
    """Neither way, or not the wanted one, is there; the message says why and what to do."""


def evidence(sysfs_root, proc_root, boot_root, kernel):
    """What the host shows, each null where it cannot be seen; `kernel` is the running release.

    {"driver": {"version", "open"}, "kernel", "kernel_config": {option: value}, "symbol": bool, "peermem": {"version"},
    "peer_clients": [name]}; the last are what DOCA-OFED lists in /sys/kernel/mm/memory_peers.
    """
    peermem = kernel_modules.loaded(sysfs_root, PEERMEM)
    clients = Path(sysfs_root, "kernel/mm/memory_peers")
    return {
        "driver": _driver(proc_root),
        "kernel": kernel,
        "kernel_config": _config(proc_root, boot_root, kernel),
        "symbol": _symbol(proc_root),
        "peermem": {"version": peermem["version"]} if peermem else None,
        "peer_clients": sorted(path.name for path in clients.iterdir()) if clients.is_dir() else [],
    }


def judge(found):
    """{kind: {"usable", "for": [sentence], "against": [sentence]}} of what `evidence` found.

    `found` may have two more: "cuda", {gpu: 0 or 1}, and "verbs", {RDMA device: "yes", "no" or why not known}.
    """
    return {DMABUF: _dmabuf(found), PEERMEM: _peermem(found)}


def choose(judged, wanted="auto"):
    """The kind to use. Without a wish dma-buf comes first: it needs no module that fits the OFED.

    Raises PeerMemoryError.
    """
    for kind in (DMABUF, PEERMEM) if wanted == "auto" else (wanted,):
        if judged[kind]["usable"]:
            return kind
    against = [
        f"{kind}: {'; '.join(one['against'])}"
        for kind, one in judged.items()
        if wanted in ("auto", kind) and one["against"]
    ]
    raise PeerMemoryError(
        f"no NIC can reach GPU memory ({'. '.join(against)}). Install the driver's open modules, or compile and load "
        "nvidia-peermem against the DOCA-OFED that is installed"
    )


def _dmabuf(found):
    for_it, against, shown = [], [], False
    driver = found["driver"]
    if driver is None:
        against.append("the NVIDIA driver is not loaded")
    elif driver["open"]:
        for_it.append(f"driver {driver['version']} has open modules")
    else:
        against.append(f"driver {driver['version']} has closed modules, which export no dma-buf")
    options = found["kernel_config"] or {}
    if options and options.get(OPTIONS[0]) != "y":
        against.append(f"the kernel is built without {OPTIONS[0]}")
    if found["symbol"]:
        shown = True
        for_it.append(f"the kernel's RDMA core has {SYMBOL}")
    elif found["symbol"] is False:
        against.append(f"the kernel's RDMA core has no {SYMBOL}; load ib_uverbs")
    elif _release(found["kernel"]) < FIRST_KERNEL:
        against.append(f"kernel {found['kernel']} is older than 5.12, which has it first")
    for device, answer in sorted((found.get("verbs") or {}).items()):
        shown = shown or answer == "yes"
        if answer == "yes":
            for_it.append(f"{device} takes dma-buf")
        elif answer == "no":
            against.append(f"{device} takes no dma-buf")
    for gpu, value in sorted((found.get("cuda") or {}).items()):
        (for_it if value else against).append(f"CUDA's DMA_BUF_SUPPORTED is {value} for {gpu}")
    if not shown and not against:
        against.append(
            "nothing shows that the kernel takes it: /proc/kallsyms is not for us and libibverbs is not there"
        )
    return {"usable": not against, "for": for_it, "against": against}


def _peermem(found):
    module, clients = found["peermem"], found["peer_clients"]
    if module is None:
        return {"usable": False, "for": [], "against": ["the module nvidia_peermem is not loaded"]}
    for_it = [f"nvidia_peermem {module['version'] or ''} is loaded".replace("  ", " ")]
    if clients:
        for_it.append(f"the RDMA core lists the client {', '.join(clients)}")
    return {"usable": True, "for": for_it, "against": []}


def _driver(proc_root):
    path = Path(proc_root, "driver/nvidia/version")
    version = nvidia_driver.loaded_version(proc_root)
    return {"version": version, "open": "Open Kernel Module" in path.read_text()} if version else None


def _config(proc_root, boot_root, kernel):
    """The options, "n" for one that is not set."""
    packed, plain = Path(proc_root, "config.gz"), Path(boot_root, f"config-{kernel}")
    if packed.is_file():
        text = gzip.decompress(packed.read_bytes()).decode()
    elif plain.is_file():
        text = plain.read_text()
    else:
        return None
    values = dict(re.findall(r"^(CONFIG_\w+)=(\w+)$", text, re.MULTILINE))
    return {option: values.get(option, "n") for option in OPTIONS}


def _symbol(proc_root):
    path = Path(proc_root, "kallsyms")
    try:
        with path.open() as lines:
            return any(line.split()[2:3] == [SYMBOL] for line in lines)
    except OSError:
        return None


def _release(kernel):
    return tuple(int(part) for part in re.findall(r"\d+", kernel)[:2])
