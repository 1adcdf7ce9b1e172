"""GPUDirect Storage and its library in the serving processes.

Topic `processes`, from probes.host.processes: {"expected": [role, ...], "processes": [{"pid", "role", "limits":
{"memlock", "nofile": bytes or count, null for unlimited}, "environment": {allowed names: value}, "libraries":
[{"name", "path", "version": or null, "rdma_descriptors": bool or null}]}]}
Topic `gds`: {"path": "object"|"file", "cufile": {property: value}, "addresses": [address of the host, ...], "gdscheck":
{name: text} or null, "log": [line, ...], "nvidia_fs": {"version", "origin"} or null, "kernel", "modules": [name, ...],
"registrations": [bytes, ...]}
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release

gds = functools.partial(check, stage="host", topic="gds")
processes = functools.partial(check, stage="serving", topic="processes")

CUFILE_FOR_CUOBJECT = (1, 16)
"""libcufile 1.16 is CUDA 13.1's, the first with the RDMA descriptor calls (facts/provisioning.md 2.8c)."""

SAFE_NVIDIA_FS = (2, 28, 4)
NVIDIA_FS_KERNELS = {(2, 26): (6, 14), (2, 27): (6, 17), (2, 28): (6, 17)}
GIB4 = 1 << 32


@processes(
    "GDS001",
    "Each serving process has at most one libcufile, as new as the cuObject client wants",
    severity="critical",
    remedy="Override nvidia-cufile in the environment (1.16.1.26, --no-deps) or LD_PRELOAD the host's "
    "library in the unit.",
    source="facts/provisioning.md 2.8c and 3, row 44 (pytorch/pytorch PR#148137)",
)
def _one_cufile(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for process in facts["processes"]:
        name = f"{process['role']} ({process['pid']})"
        found = [lib for lib in process["libraries"] if lib["name"].startswith("libcufile.so")]
        client = any(lib["name"].startswith("libcuobjclient") for lib in process["libraries"])
        told = ", ".join(f"{lib['path']} {lib['version'] or ''}".strip() for lib in found) or "none"
        old = [lib for lib in found if lib["version"] and release(lib["version"])[:2] < CUFILE_FOR_CUOBJECT]
        tally.add(len(found) <= 1 and not (client and old), f"{name}: libcufile {told}")
    return tally.verdict()


@processes(
    "GDS002",
    "The libcufile that is loaded has the RDMA descriptor calls",
    severity="critical",
    remedy="torch's pinned libcufile 1.15 lacks them: override nvidia-cufile with 1.16.1.26, and look "
    "again after each pip run.",
    source="facts/provisioning.md 2.8c and 3, row 50",
)
def _descriptors(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for process in facts["processes"]:
        name = f"{process['role']} ({process['pid']})"
        found = [lib for lib in process["libraries"] if lib["name"].startswith("libcufile.so")]
        if not found:
            tally.ok(f"{name}: libcufile is not loaded")
        for lib in found:
            has = lib["rdma_descriptors"]
            line = f"{name}: {lib['path']} {'has' if has else 'lacks'} cuFileRDMADescStrGet"
            if has is None:
                tally.unknown(f"{name}: the symbols of {lib['path']} cannot be read")
            else:
                tally.add(has, line)
    return tally.verdict()


@gds(
    "GDS003",
    "Compatibility mode is not allowed, and was not used",
    severity="critical",
    remedy="Write allow_compat_mode: false in cufile.json: then what cannot be direct is an error, not a "
    "bounce copy.",
    source="facts/provisioning.md 3, row 12 (NVIDIA/gds-nvidia-fs#78) and row 15 (rapidsai/cudf#13651)",
)
def _compat(facts: TopicFacts) -> Verdict:
    tally = Tally()
    allowed = facts["cufile"].get("allow_compat_mode", True)
    tally.add(not allowed, f"allow_compat_mode is {str(bool(allowed)).lower()}")
    used = [line for line in facts["log"] if "compat" in line.lower() and "mode" in line.lower()]
    tally.add(not used, f"cufile.log: {used[0] if used else 'no word of compatibility mode'}")
    return tally.verdict()


@gds(
    "GDS004",
    "nvidia-fs fits the kernel, and is one that does not damage descriptors",
    severity="major",
    remedy="Install nvidia-fs 2.28.4 or newer; older ones corrupt descriptors of buffers from 4 GiB, and "
    "do not build on 6.17.",
    source="facts/provisioning.md 2.5 and 3, row 11 (NVIDIA/gds-nvidia-fs#64)",
)
def _nvidia_fs(facts: TopicFacts) -> Verdict:
    tally, module = Tally(), facts["nvidia_fs"]
    if module is None:
        tally.add(facts["path"] == "object", f"nvidia-fs is not installed; the path is {facts['path']}")
        return tally.verdict()
    version, kernel = release(module["version"]), release(facts["kernel"])[:2]
    tally.add(version >= SAFE_NVIDIA_FS, f"nvidia-fs is {module['version']}, 2.28.4 is the first sound one")
    newest = max((k for v, k in NVIDIA_FS_KERNELS.items() if v <= version[:2]), default=(6, 8))
    tally.add(
        kernel <= newest,
        f"kernel {facts['kernel']}; this nvidia-fs is known to build up to {newest[0]}.{newest[1]}",
    )
    return tally.verdict()


@gds(
    "GDS005",
    "nvidia-fs comes from the CUDA repository",
    severity="major",
    remedy="Give the CUDA repository the higher apt priority and install nvidia-fs-dkms again: Ubuntu's "
    "own is years older.",
    source="facts/provisioning.md 2.1",
)
def _origin(facts: TopicFacts) -> Verdict:
    tally, module = Tally(), facts["nvidia_fs"]
    if module is None:
        tally.ok("nvidia-fs is not installed")
    elif not module["origin"]:
        tally.unknown("the origin of nvidia-fs-dkms is not known")
    else:
        good = "NVIDIA" in module["origin"] or "cuda" in module["origin"].lower()
        tally.add(good, f"nvidia-fs {module['version']} is from {module['origin']}")
    return tally.verdict()


@gds(
    "GDS006",
    "What gdscheck calls unsupported is not what this path needs",
    severity="major",
    remedy="For files: enable that kind of storage (NFS: RDMA mount and MOFED; NVMe: its patched driver). "
    "For objects: nothing.",
    source="facts/provisioning.md 3, row 13 (NVIDIA/gds-nvidia-fs#31)",
)
def _gdscheck(facts: TopicFacts) -> Verdict:
    tally, found = Tally(), facts["gdscheck"]
    if facts["path"] == "object":
        tally.ok("objects do not go through nvidia-fs")
    elif found is None:
        tally.unknown("gdscheck -p was not run")
    else:
        kind = facts.get("file_kind", "NFS")
        state = found.get(kind, "not mentioned")
        tally.add(state.startswith("Supported"), f"gdscheck: {kind} is {state}")
    return tally.verdict()


@gds(
    "GDS007",
    "GPU memory can be registered: dma-buf, or the peer memory module",
    severity="critical",
    remedy='Write rdma_peer_type: "dmabuf" with the open driver, or load nvidia_peermem at boot.',
    source="facts/provisioning.md 2.5 and 3, row 14 (NVIDIA/gds-nvidia-fs#4)",
)
def _peer(facts: TopicFacts) -> Verdict:
    tally = Tally()
    kind, loaded = (
        facts["cufile"].get("rdma_peer_type", "nvidia-peermem"),
        "nvidia_peermem" in facts["modules"],
    )
    line = f"rdma_peer_type is {kind}, nvidia_peermem is {'' if loaded else 'not '}loaded"
    tally.add(kind == "dmabuf" or loaded, line)
    return tally.verdict()


@gds(
    "GDS008",
    "No buffer is registered in one piece of 4 GiB or more",
    severity="major",
    remedy="Use smaller buffers (kvlab size computes them): several stacks fail, or halve their rate, "
    "from 4 GiB on.",
    source="facts/provisioning.md 2.5 and 3, row 41 (minio/minio-rs PR#233)",
)
def _large(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["registrations"] == []:
        tally.ok("the profile registers no buffer with a NIC")
    for size in facts["registrations"]:
        tally.add(size < GIB4, f"a buffer of {size:,} bytes")
    return tally.verdict()


@gds(
    "GDS009",
    "The RDMA addresses in cufile.json are the host's own",
    severity="critical",
    remedy="List this host's RDMA NIC addresses in rdma_dev_addr_list; empty, the client quietly goes "
    "over HTTP.",
    source="facts/provisioning.md 2.8 and after 3; issue 8, drill NIC address missing",
)
def _addresses(facts: TopicFacts) -> Verdict:
    tally, listed = Tally(), facts["cufile"].get("rdma_dev_addr_list") or []
    for address in listed:
        own = address in facts["addresses"]
        tally.add(own, f"{address} is {'' if own else 'not '}an address of this host")
    if not listed:
        tally.fail("rdma_dev_addr_list is empty: the client does not connect")
    return tally.verdict()


@gds(
    "GDS010",
    "Direct I/O of files was shown by use, not by a plugin that loads",
    severity="major",
    remedy="Run gdscheck -p and a transfer (kvlab.probes.nixl_roundtrip): the plugin loads without any GPU.",
    source="facts/provisioning.md 2.8b: GDS plugin with PyPI nvidia-cufile",
)
def _not_by_loading(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["path"] == "object":
        tally.ok("objects do not use the GDS plugin")
    elif facts["gdscheck"] is None:
        tally.unknown("only the plugin is known to load; gdscheck was not run")
    else:
        tally.add(
            bool(facts["gdscheck"].get("driver")), f"gdscheck: driver {facts['gdscheck'].get('driver')}"
        )
    return tally.verdict()
