"""NVIDIA's driver and what depends on it, and where each GPU's NIC is.

Topic `driver`, from probes.host.driver: {"gpus": count of PCI devices, "loaded": version or "", "license": of the
module, "installed": version on disk or null, "userland": version or null, "fabricmanager": {"version", "active"},
"nvswitches": count, "nvlink5": bool, "modules": [name, ...], "kernel": release, "cuda_init": {"code", "name"} or
null, "dma_buf": {gpu: 0|1} or null, "persistence": {gpu: bool} or null, "bar1": {gpu: {"total_mib", "used_mib"}} or
null, "packages": {name: {"version", "origin"}}, "xid": [line, ...] or null}
Topic `gpu_topology`: {"assignment": {gpu: {"nic", "distance"}}}
"""

from __future__ import annotations

import functools
from collections import Counter

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release

driver = functools.partial(check, stage="host", topic="driver")

DMA_BUF_KERNEL = (5, 12)
BAR1_SHARE = 0.9


@driver(
    "GPU010",
    "Kernel module, module on disk and user space of the driver are one version",
    severity="critical",
    remedy="Reboot: somebody upgraded the driver under a running module. Then keep upgrades away from it "
    "(HOST056).",
    source="facts/provisioning.md 2.3 and 3, row 4 (NVIDIA/deepops#1186)",
)
def _one_version(facts: TopicFacts) -> Verdict:
    tally, loaded = Tally(), facts["loaded"]
    if not loaded:
        tally.fail("the driver is not loaded")
        return tally.verdict()
    for what, version in (("the module on disk", facts["installed"]), ("user space", facts["userland"])):
        if version is None:
            tally.unknown(f"the version of {what} cannot be seen")
        else:
            tally.add(version == loaded, f"loaded is {loaded}, {what} is {version}")
    return tally.verdict()


@driver(
    "GPU011",
    "The open kernel modules are loaded, which dma-buf needs",
    severity="critical",
    remedy="Install nvidia-open instead of cuda-drivers, and reboot; the closed modules export no dma-buf.",
    source="facts/provisioning.md 2.2, 2.5 and 3, row 17 (NVIDIA/nccl#778)",
)
def _open(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(facts["license"] == "Dual MIT/GPL", f"the module's licence is {facts['license'] or 'unknown'}")
    return tally.verdict()


@driver(
    "GPU012",
    "Kernel and every GPU export memory as dma-buf",
    severity="critical",
    remedy="Use kernel 5.12 or newer with the open modules, or load nvidia-peermem and say so in "
    "cufile.json.",
    source="facts/provisioning.md 2.5 and 3, row 18 (microsoft/mscclpp#657)",
)
def _dma_buf(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(release(facts["kernel"])[:2] >= DMA_BUF_KERNEL, f"kernel {facts['kernel']}, 5.12 is the first")
    if not facts["dma_buf"]:
        tally.unknown("the CUDA attribute DMA_BUF_SUPPORTED was not read of any GPU")
    for gpu, value in (facts["dma_buf"] or {}).items():
        tally.add(value == 1, f"{gpu}: DMA_BUF_SUPPORTED is {value}")
    return tally.verdict()


@driver(
    "GPU013",
    "With NVSwitch, the fabric manager runs in exactly the driver's version",
    severity="critical",
    remedy="Install nvidia-fabricmanager of the driver's version and start it; without it CUDA fails with 802 while "
    "nvidia-smi looks healthy.",
    source="facts/provisioning.md 2.1 and 3, row 6 (NVIDIA/gpu-operator#544)",
)
def _fabric_manager(facts: TopicFacts) -> Verdict:
    tally, manager = Tally(), facts["fabricmanager"]
    if not facts["nvswitches"]:
        tally.ok("there is no NVSwitch")
        return tally.verdict()
    version = manager["version"].partition("-")[0]
    line = f"fabric manager {version or 'not installed'}, driver {facts['loaded'] or 'not loaded'}"
    tally.add(bool(version) and version == facts["loaded"], line)
    tally.add(manager["active"], f"the fabric manager is {'' if manager['active'] else 'not '}running")
    return tally.verdict()


@driver(
    "GPU014",
    "CUDA starts, not only nvidia-smi",
    severity="critical",
    remedy="For 802: fabric manager, and on HGX B200 ib_umad and mlx5_ib (linux-modules-extra). For "
    "others: dmesg.",
    source="facts/provisioning.md 3, row 7 (NVIDIA/gpu-operator#2781)",
)
def _cuda(facts: TopicFacts) -> Verdict:
    tally, init = Tally(), facts["cuda_init"]
    if facts["nvlink5"]:
        for name in ("ib_umad", "mlx5_ib"):
            tally.add(
                name in facts["modules"], f"{name} is {'' if name in facts['modules'] else 'not '}loaded"
            )
    if init is None:
        tally.unknown("cuInit was not called (no libcuda.so.1)")
    else:
        tally.add(init["code"] == 0, f"cuInit says {init['code']} ({init['name']})")
    return tally.verdict()


@driver(
    "GPU015",
    "The superseded peer memory module is gone",
    severity="major",
    remedy="Remove nv_peer_mem (package nvidia-peer-memory-dkms) and its line in modules-load.d; use "
    "dma-buf or nvidia_peermem.",
    source="facts/provisioning.md 3, row 3 (NVIDIA/deepops#1300)",
)
def _legacy_peer(facts: TopicFacts) -> Verdict:
    tally = Tally()
    loaded = "nv_peer_mem" in facts["modules"]
    tally.add(not loaded, f"module nv_peer_mem is {'' if loaded else 'not '}loaded")
    old = [name for name in facts["packages"] if name.startswith("nvidia-peer-memory")]
    tally.add(not old, f"packages: {', '.join(old) or 'none of it'}")
    return tally.verdict()


@driver(
    "GPU016",
    "The driver is there where GPUs are, and only there",
    severity="major",
    remedy="Take the host out of gpu_hosts, or find its GPU (lspci -d 10de:); a driver without one "
    "rebuilds at each boot.",
    source="facts/provisioning.md 3, row 46 (Azure/AgentBaker#8647)",
)
def _guard(facts: TopicFacts) -> Verdict:
    tally, there = Tally(), facts["installed"] is not None
    line = f"{facts['gpus']} GPU(s) on the PCI bus, driver {facts['installed'] or 'not installed'}"
    tally.add(bool(facts["gpus"]) == there, line)
    return tally.verdict()


@driver(
    "GPU017",
    "Persistence mode holds the driver's state",
    severity="minor",
    remedy="Start nvidia-persistenced with persistence mode; otherwise fabric and ECC state are set up "
    "for each job anew.",
    source="facts/provisioning.md 2.1",
)
def _persistence(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["persistence"] is None:
        tally.unknown("nvidia-smi gave no persistence mode")
    for gpu, on in (facts["persistence"] or {}).items():
        tally.add(on, f"{gpu}: persistence mode {'on' if on else 'off'}")
    return tally.verdict()


@driver(
    "GPU018",
    "There is room in BAR1 for registered memory",
    severity="major",
    remedy="Lower the buffers (nixl_buffer_size), end what else pins memory, or enlarge BAR1 in the "
    "firmware.",
    source="facts/provisioning.md 2.5 and 3, row 14 (NVIDIA/gds-nvidia-fs#4)",
)
def _bar1(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["bar1"] is None:
        tally.unknown("nvidia-smi gave no BAR1 usage")
    for gpu, bar in (facts["bar1"] or {}).items():
        line = f"{gpu}: {bar['used_mib']} of {bar['total_mib']} MiB of BAR1 used"
        tally.add(bar["used_mib"] < bar["total_mib"] * BAR1_SHARE, line)
    return tally.verdict()


@driver(
    "GPU019",
    "The driver's packages come from one source",
    severity="major",
    remedy="Choose NVIDIA's repository or the distribution's and pin the other away; mixed, the next "
    "upgrade breaks one half.",
    source="facts/provisioning.md 2.1",
)
def _one_source(facts: TopicFacts) -> Verdict:
    tally = Tally()
    origins = Counter(
        one["origin"]
        for name, one in facts["packages"].items()
        if one["origin"]
        and name.startswith(("nvidia-", "libnvidia-", "linux-modules-nvidia", "cuda-drivers"))
    )
    told = ", ".join(f"{origin} ({count})" for origin, count in origins.items())
    if not origins:
        tally.unknown("the origin of the driver's packages is not known")
    else:
        tally.add(len(origins) == 1, f"packages come from {told}")
    return tally.verdict()


@driver(
    "GPU020",
    "No GPU reported a fault (Xid)",
    severity="critical",
    remedy="Look the number up in NVIDIA's list of Xid errors; 79 (fell off the bus) and 94/95 need a "
    "reset or the vendor.",
    source="NVIDIA, XID errors; facts/provisioning.md 3, row 14",
)
def _xid(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["xid"] is None:
        tally.unknown("the kernel's log cannot be read; run this as root")
        return tally.verdict()
    for line in facts["xid"]:
        tally.fail(line)
    if not facts["xid"]:
        tally.ok("no Xid in the kernel's log")
    return tally.verdict()


@check(
    "GPU021",
    "Every GPU has a NIC that is not across the CPU interconnect",
    stage="host",
    severity="major",
    topic="gpu_topology",
    remedy="Use the NIC on the GPU's own PCIe switch; where there is none, move a NIC or a GPU. See "
    "nvidia-smi topo -m.",
    source="facts/provisioning.md 2.7",
)
def _nic_near(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for gpu, one in facts["assignment"].items():
        tally.add(
            one["distance"] not in (None, "SYS"), f"{gpu}: {one['nic'] or 'no NIC'} ({one['distance']})"
        )
    return tally.verdict()


@check(
    "GPU022",
    "No NIC serves more GPUs than its share",
    stage="host",
    severity="minor",
    topic="gpu_topology",
    remedy="Spread the GPUs over the NICs (module gpu_topology_facts does); NICs left out need a link and "
    "an address.",
    source="facts/provisioning.md 2.7",
)
def _spread(facts: TopicFacts) -> Verdict:
    tally = Tally()
    load = Counter(one["nic"] for one in facts["assignment"].values() if one["nic"])
    usable = facts["usable"]
    for nic in usable:
        share = -(-len(facts["assignment"]) // max(1, len(usable)))
        tally.add(load[nic] <= share, f"{nic}: {load[nic]} GPU(s), its share is {share}")
    return tally.verdict()
