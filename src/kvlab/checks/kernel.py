"""The kernel of a host: what runs, what it was told at boot, which modules it took and which it refused.

Topic `kernel`, from probes.host.kernel: {"release", "newest_installed": release or null, "headers": bool, "cmdline":
[argument, ...], "modules": {name: {"version", "holders": [module, ...]}}, "secure_boot": bool or null,
"module_key_enrolled": bool or null, "dkms": [{"module", "version", "kernel", "state"}], "ofa_kernel": link target or
null, "log": [line, ...] or null, "unattended_upgrades": bool, "upgrade_blocklist": [pattern, ...], "held": [package,
...]}
"""

from __future__ import annotations

import functools
import re

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

kernel = functools.partial(check, stage="host", topic="kernel")

REFUSED = re.compile(r"disagrees about version of symbol|Unknown symbol|module verification failed|"
                     r"Key was rejected|Invalid argument.*(?:peermem|mlx5)", re.IGNORECASE)  # fmt: skip
DRIVER_PACKAGES = ("nvidia", "linux-", "doca")
MATCHING_HEADERS_FOR = ("mlnx-ofed-kernel", "nvidia", "nvidia-fs", "kernel-mft-dkms")


@kernel(
    "HOST050",
    "The running kernel is the newest installed, and its headers are there",
    severity="major",
    remedy="Reboot into the newest kernel, install its headers, and hold the kernel; then build the modules.",
    source="facts/provisioning.md 2.3 and 3, row 2",
)
def _newest(facts: TopicFacts) -> Verdict:
    tally, running, newest = Tally(), facts["release"], facts["newest_installed"]
    if newest is None:
        tally.unknown("which kernels are installed cannot be seen")
    else:
        tally.add(running == newest, f"running {running}, newest installed {newest}")
    tally.add(facts["headers"], f"headers for {running}: {'there' if facts['headers'] else 'missing'}")
    return tally.verdict()


@kernel(
    "HOST051",
    "With secure boot on, the key that signs the host's modules is enrolled",
    severity="critical",
    remedy="Enrol the key named in /etc/dkms/framework.conf (mokutil --import, then reboot), or turn "
    "secure boot off.",
    source="facts/provisioning.md 2.3 and 3, row 45 (lcp/mokutil#72)",
)
def _secure_boot(facts: TopicFacts) -> Verdict:
    tally, enrolled = Tally(), facts["module_key_enrolled"]
    if facts["secure_boot"] is None:
        tally.unknown("whether secure boot is on cannot be seen (mokutil)")
    elif not facts["secure_boot"]:
        tally.ok("secure boot is off")
    elif enrolled is None:
        tally.unknown("secure boot is on, and whether the key is enrolled cannot be seen")
    else:
        tally.add(enrolled, f"secure boot is on, the modules' key is {'' if enrolled else 'not '}enrolled")
    return tally.verdict()


@kernel(
    "HOST052",
    "nouveau is not loaded",
    severity="critical",
    remedy="Blacklist nouveau, rebuild the initramfs and reboot; the list of modules decides, not the file.",
    source="facts/provisioning.md 2.3",
)
def _nouveau(facts: TopicFacts) -> Verdict:
    tally, loaded = Tally(), "nouveau" in facts["modules"]
    tally.add(not loaded, f"nouveau is {'' if loaded else 'not '}among {len(facts['modules'])} modules")
    return tally.verdict()


@kernel(
    "HOST053",
    "Every DKMS module is built and installed for the running kernel",
    severity="critical",
    remedy="dkms autoinstall, and read the make.log that it names: a module built against other headers "
    "fails there.",
    source="facts/provisioning.md 3, row 10 (LINBIT/drbd#123) and row 11 (NVIDIA/gds-nvidia-fs#64)",
)
def _dkms(facts: TopicFacts) -> Verdict:
    tally, release = Tally(), facts["release"]
    by_module: dict[str, list[str]] = {}
    for one in facts["dkms"]:
        name = f"{one['module']}/{one['version']}"
        by_module.setdefault(name, [])
        if one["kernel"] in (release, ""):
            by_module[name].append(one["state"])
    for name, states in by_module.items():
        good = "installed" in states
        tally.add(good, f"{name} for {release}: {', '.join(states) or 'not built'}")
    if not facts["dkms"]:
        tally.ok("no DKMS module is registered")
    return tally.verdict()


@kernel(
    "HOST054",
    "OFED's kernel headers are those of the running kernel",
    severity="major",
    remedy="Reinstall mlnx-ofed-kernel-dkms for this kernel; peer memory modules build against that link.",
    source="facts/provisioning.md 3, row 2 (Mellanox/nv_peer_memory#113)",
)
def _ofa_kernel(facts: TopicFacts) -> Verdict:
    tally, target = Tally(), facts["ofa_kernel"]
    if target is None:
        tally.ok("OFED's kernel sources are not installed")
    else:
        good = facts["release"] in target
        tally.add(good, f"/usr/src/ofa_kernel/default is {target}, the kernel {facts['release']}")
    return tally.verdict()


@kernel(
    "HOST055",
    "The kernel refused no module",
    severity="critical",
    remedy="Rebuild that module against the OFED and kernel that run (dkms remove, dkms install), then "
    "load it again.",
    source="facts/provisioning.md 3, row 1 (NVIDIA/gpu-operator#2868)",
)
def _refused(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["log"] is None:
        tally.unknown("the kernel's log cannot be read; run this as root")
        return tally.verdict()
    for line in facts["log"]:
        if REFUSED.search(line):
            tally.fail(line)
    if not tally.failed:
        tally.ok("no refusal in the kernel's log")
    return tally.verdict()


@kernel(
    "HOST056",
    "Nothing upgrades drivers or the kernel by itself",
    severity="major",
    remedy="Exclude nvidia*, linux-* and doca* in unattended-upgrades (Package-Blacklist), or hold them "
    "with apt-mark.",
    source="facts/provisioning.md 2.3 and 3, row 4 (NVIDIA/deepops#1186)",
)
def _unattended(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["unattended_upgrades"]:
        tally.ok("unattended-upgrades is off")
        return tally.verdict()
    guarded = [*facts["upgrade_blocklist"], *facts["held"]]
    for package in DRIVER_PACKAGES:
        good = any(package.rstrip("-") in one for one in guarded)
        tally.add(good, f"{package.rstrip('-')}* {'is' if good else 'is not'} excluded from upgrades")
    return tally.verdict()


@kernel(
    "HOST057",
    "The modules under a restart of openibd can be removed",
    severity="minor",
    remedy="Stop what holds them (peer memory, NVMe over RDMA, file systems), or reboot instead of a "
    "restart.",
    source="facts/provisioning.md 3, row 9 (Mellanox/doca-driver-build#481)",
)
def _holders(facts: TopicFacts) -> Verdict:
    tally = Tally()
    own = re.compile(r"ib_|rdma_|mlx5_|iw_|mlxdevm|mlxfw|nvidia_peermem")
    for name in ("ib_uverbs", "ib_core", "mlx5_core", "mlx5_ib"):
        if name in facts["modules"]:
            held = [holder for holder in facts["modules"][name]["holders"] if not own.match(holder)]
            tally.add(not held, f"{name} is held by {', '.join(held) or 'nothing foreign'}")
    if not any(name.startswith("mlx5") for name in facts["modules"]):
        tally.ok("no mlx5 module is loaded")
    return tally.verdict()
