"""Whether a bare GPU host, and what its inventory says of it, can be brought up. All of them are told at once.

Topic `bare_inventory`, from the controller alone: {"networks": [network, ...], "rdma_addresses": [address, ...],
"secure_boot": bool, "module_key": path or "", "stack": name, "driver": version, "driver_minimum": version or null}

Topic `bare_host`, from the Ansible module bare_host_facts: {"os": {"id", "version", "name", "machine"}, "kernel":
{"release", "newest_installed": release or null, "headers", "headers_available": bool or null, "headers_package",
"cmdline": [argument, ...]}, "secure_boot": {"on": bool or null, "key", "key_exists", "enrolled": bool or null,
"mokutil": bool}, "pci": {"gpus"|"nics": [{"address", "id", "netdevs", "link"}]}, "network": {"addresses": {interface:
["192.0.2.1/24"]} or null, "management": {"interface", "why", "carried_by": [interface, ...]} or null}, "urls":
[{"url", "problem": text or null}], "disk": [{"path", "free": bytes, "file_system"}], "iommu_groups": {type: count},
"packages": {name: version} or null, "modules": [name, ...], "lldpad": [unit, ...], "clock": {"synchronised": bool or
null}}, and "wanted" from the inventory: {"kernels": {"debian 12": ["6.1"]}, "gpus", "nics": least counts, "gpu_ids",
"nic_ids": accepted "vendor:device" or none for any, "networks", "rdma_addresses", "rdma_stack": "doca"|"inbox",
"remove_conflicting", "disk_gib": {path: GiB}, "kernel_arguments": [argument, ...]}
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release

inventory = functools.partial(check, stage="preflight", topic="bare_inventory")
host = functools.partial(check, stage="preflight", topic="bare_host")

GIB = 1024**3
MACHINES = ("x86_64", "aarch64")

_IDENTITY = ("iommu=pt", "iommu=off", "intel_iommu=off", "amd_iommu=off")
"""Kernel arguments with which the IOMMU leaves peer-to-peer traffic alone."""

_OLD_OFED = re.compile(r"mlnx-ofed-(all|basic|guest|hypervisor|kernel-only|vma|dpdk)|nv[-_]peer[-_]mem|"
                       r"nvidia[-_]peer[-_]memory")  # fmt: skip
_DOCA = re.compile(r"doca-|mlnx-ofed-|mlnx-ofa_|ofed-scripts|mlnx-tools|kernel-mft")

_DISTRIBUTION_DRIVER = re.compile(r"nvidia-driver-\d+|nvidia-(dkms|kernel-source|kernel-common)-\d+|"
                                  r"linux-modules-nvidia-")  # fmt: skip
"""Canonical's names carry the branch; NVIDIA's own packages have carried none since 590."""


def _network(text: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(str(text))
    except ValueError:
        return None


def _address(text: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(str(text))
    except ValueError:
        return None


@inventory(
    "HOST020",
    "The inventory's storage networks and NIC addresses are valid and fit each other",
    severity="critical",
    remedy="Correct rdma_fabric_networks (such as 198.51.100.0/24) and kv_profiles_rdma_addresses in the inventory.",
    source="facts/provisioning.md 2.6",
)
def _addresses(facts: TopicFacts) -> Verdict:
    tally = Tally()
    networks = []
    for text in facts["networks"]:
        network = _network(text)
        tally.add(network is not None, f"{text} is {'a' if network else 'no'} network")
        networks += [network] if network else []
    for text in facts["rdma_addresses"]:
        address = _address(text)
        if address is None:
            tally.fail(f"{text} is no address")
        elif networks and not any(address in network for network in networks):
            tally.fail(f"{text} is in none of {', '.join(map(str, networks))}")
        else:
            tally.ok(f"{text} is an address of the storage networks")
    if not facts["networks"] and not facts["rdma_addresses"]:
        tally.ok("no network is named, so every RDMA port with an address is taken")
    return tally.verdict()


@inventory(
    "HOST021",
    "A lab with secure boot names the key that signs its modules",
    severity="critical",
    remedy="Set preflight_module_key to the public key (DER) that is enrolled on the hosts, or turn secure boot off "
    "and set preflight_secure_boot: false.",
    source="facts/provisioning.md 2.3 and 3, row 45",
)
def _key_named(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["secure_boot"]:
        tally.ok("the inventory knows no host with secure boot")
    else:
        named = facts["module_key"]
        tally.add(bool(named), f"secure boot is on, the modules' key is {named or 'not named'}")
    return tally.verdict()


@inventory(
    "HOST022",
    "The driver that is to be installed serves the stack",
    severity="critical",
    remedy="Raise nvidia_driver_version, or choose another stack (kvlab_stack).",
    source="facts/provisioning.md 2.2",
)
def _driver(facts: TopicFacts) -> Verdict:
    tally, least = Tally(), facts["driver_minimum"]
    if least is None:
        tally.ok(f"the stack {facts['stack']} asks for no driver")
    else:
        good = release(facts["driver"]) >= release(least)
        tally.add(
            good, f"driver {facts['driver']} is to be installed; the stack {facts['stack']} needs {least}"
        )
    return tally.verdict()


@host(
    "HOST023",
    "The operating system is one that the roles know",
    severity="critical",
    remedy="Install Ubuntu 22.04, Ubuntu 24.04, Debian 12 or RHEL 9 (preflight_kernels has the list).",
    source="facts/provisioning.md 2.1 and 2.4",
)
def _system(facts: TopicFacts) -> Verdict:
    tally, system = Tally(), facts["os"]
    known = sorted(facts["wanted"]["kernels"])
    tally.add(_system_key(facts) in known, f"it runs {system['name']}; known are {', '.join(known)}")
    tally.add(system["machine"] in MACHINES, f"its machine is {system['machine']}")
    return tally.verdict()


def _system_key(facts: TopicFacts) -> str:
    """The name under which the inventory lists this operating system: "ubuntu 24.04", and "rhel 9" for 9.4."""
    name, version = facts["os"]["id"], str(facts["os"]["version"])
    full = f"{name} {version}"
    return full if full in facts["wanted"]["kernels"] else f"{name} {version.partition('.')[0]}"


@host(
    "HOST024",
    "DOCA and the driver support the running kernel",
    severity="critical",
    remedy="Boot a kernel of a series that is listed there, or add this one to preflight_kernels if the release "
    "notes of your DOCA version list it.",
    source="facts/provisioning.md 2.4 (Mellanox/doca-driver-build)",
)
def _kernel(facts: TopicFacts) -> Verdict:
    tally, running = Tally(), facts["kernel"]["release"]
    series = facts["wanted"]["kernels"].get(_system_key(facts))
    if series is None:
        # HOST023 says so; a second failure would only hide what is to be done.
        tally.ok("this operating system has no list of kernels")
    else:
        good = any(re.match(re.escape(str(one)) + r"(\D|$)", running) for one in series)
        tally.add(good, f"kernel {running} runs; supported are {', '.join(map(str, series)) or 'none'}")
    return tally.verdict()


@host(
    "HOST025",
    "The running kernel is the newest installed",
    severity="critical",
    remedy="Reboot the host: modules would be built for a kernel that is gone after the next reboot.",
    source="facts/provisioning.md 2.3",
)
def _newest(facts: TopicFacts) -> Verdict:
    tally, kernel = Tally(), facts["kernel"]
    newest = kernel["newest_installed"]
    if newest is None:
        tally.unknown(
            f"kernel {kernel['release']} runs, and no installed kernel is found in /boot; install one, or waive this "
            "in a container"
        )
    else:
        tally.add(
            newest == kernel["release"], f"kernel {kernel['release']} runs, the newest installed is {newest}"
        )
    return tally.verdict()


@host(
    "HOST026",
    "Headers of the running kernel are installed, or can be",
    severity="critical",
    remedy="Install that package, or refresh the package lists (apt-get update) and give the host a mirror that has "
    "it; a kernel that was withdrawn has none any more, so upgrade the kernel and reboot.",
    source="facts/provisioning.md 2.3",
)
def _headers(facts: TopicFacts) -> Verdict:
    tally, kernel = Tally(), facts["kernel"]
    package = kernel["headers_package"]
    if kernel["headers"]:
        tally.ok(f"headers of {kernel['release']} are installed")
    elif kernel["headers_available"] is None:
        tally.unknown(f"{package} is not installed, and whether it can be is not known")
    else:
        there = kernel["headers_available"]
        tally.add(
            there,
            f"{package} is not installed, and {'can be' if there else 'no repository of the host has it'}",
        )
    return tally.verdict()


@host(
    "HOST027",
    "With secure boot on, the key that signs modules is enrolled",
    severity="critical",
    remedy="Enrol it (mokutil --import KEY, reboot, confirm at the console) and name it by preflight_module_key, or "
    "turn secure boot off; else modules are installed and then refused with 'Key was rejected by service'.",
    source="facts/provisioning.md 2.3 and 3, row 45 (lcp/mokutil#72)",
)
def _secure_boot(facts: TopicFacts) -> Verdict:
    tally, boot = Tally(), facts["secure_boot"]
    if boot["on"] is None:
        why = "mokutil's answer is not understood" if boot["mokutil"] else "install mokutil"
        tally.unknown(f"the host boots by EFI, and whether secure boot is on cannot be seen ({why})")
    elif not boot["on"]:
        tally.ok("secure boot is off")
    elif not boot["key_exists"]:
        tally.fail(f"secure boot is on, and there is no key {boot['key']}")
    elif boot["enrolled"] is None:
        tally.unknown(f"secure boot is on, and whether {boot['key']} is enrolled cannot be seen")
    else:
        tally.add(
            boot["enrolled"],
            f"secure boot is on, {boot['key']} is {'' if boot['enrolled'] else 'not '}enrolled",
        )
    return tally.verdict()


@host(
    "HOST028",
    "The GPUs that the inventory expects are on the PCI bus",
    severity="critical",
    remedy="Reseat or enable the missing ones (lspci -d 10de:, BIOS, BMC log), or correct preflight_gpus and "
    "preflight_gpu_ids.",
    source="facts/provisioning.md 3, row 46",
)
def _gpus(facts: TopicFacts) -> Verdict:
    return _counted("GPUs", facts["pci"]["gpus"], facts["wanted"]["gpus"], facts["wanted"]["gpu_ids"])


@host(
    "HOST029",
    "The RDMA NICs that the inventory expects are on the PCI bus",
    severity="critical",
    remedy="Reseat or enable the missing ones (lspci -d 15b3:, BIOS, BMC log), or correct preflight_nics and "
    "preflight_nic_ids.",
    source="facts/provisioning.md 2.4",
)
def _nics(facts: TopicFacts) -> Verdict:
    return _counted("NIC ports", facts["pci"]["nics"], facts["wanted"]["nics"], facts["wanted"]["nic_ids"])


def _counted(what: str, found: list[TopicFacts], least: int, ids: list[str]) -> Verdict:
    tally = Tally()
    right = [one for one in found if not ids or one["id"] in ids]
    others = sorted({one["id"] for one in found if one not in right})
    line = f"{len(right)} {what} of {' or '.join(ids) or 'any model'}, {least} are expected"
    tally.add(len(right) >= least, line + (f"; others there: {', '.join(others)}" if others else ""))
    return tally.verdict()


@host(
    "HOST030",
    "The management connection does not go over a NIC whose driver is replaced",
    severity="critical",
    remedy="Reach the host over another NIC (ansible_host), since this one goes down with its driver; or set "
    "doca_ofed_rdma_stack: inbox.",
    source="facts/provisioning.md 2.4 and 3, row 9",
)
def _management(facts: TopicFacts) -> Verdict:
    tally, way = Tally(), facts["network"]["management"]
    if way is None:
        tally.unknown(
            "neither the ssh connection nor a default route says which interface is the management's"
        )
        return tally.verdict()
    nics = {netdev: nic["address"] for nic in facts["pci"]["nics"] for netdev in nic["netdevs"]}
    for netdev in way["carried_by"]:
        line = f"{way['why']} goes over {way['interface']}"
        line += f" on {netdev}" if netdev != way["interface"] else ""
        if netdev in nics:
            tally.add(facts["wanted"]["rdma_stack"] == "inbox", f"{line}, an RDMA NIC ({nics[netdev]})")
        else:
            tally.ok(f"{line}, no RDMA NIC")
    return tally.verdict()


@host(
    "HOST031",
    "The RDMA NICs have the addresses that the inventory expects",
    severity="critical",
    remedy="Give the interface its address in the host's network configuration; kvlab configures none.",
    source="facts/provisioning.md 2.6",
)
def _nic_addresses(facts: TopicFacts) -> Verdict:
    tally, known = Tally(), facts["network"]["addresses"]
    netdevs = sorted(netdev for nic in facts["pci"]["nics"] for netdev in nic["netdevs"])
    if known is None:
        tally.unknown("`ip -json address` does not answer on this host")
        return tally.verdict()
    if not netdevs:
        tally.unknown("no RDMA NIC has a network interface: its driver (mlx5_core) is not loaded")
        return tally.verdict()
    here = {ipaddress.ip_interface(text).ip for netdev in netdevs for text in known.get(netdev, [])}
    networks = [network for network in map(_network, facts["wanted"]["networks"]) if network]
    for network in networks:
        good = any(address in network for address in here)
        tally.add(good, f"{', '.join(netdevs)}: {'an' if good else 'no'} address in {network}")
    for text in facts["wanted"]["rdma_addresses"]:
        good = _address(text) in here
        tally.add(good, f"{text} is {'' if good else 'not '}on one of {', '.join(netdevs)}")
    if not networks:
        routable = [address for address in here if not address.is_link_local]
        tally.add(bool(routable), f"{', '.join(netdevs)}: {len(routable)} addresses that are not link-local")
    return tally.verdict()


@host(
    "HOST032",
    "Every repository and key that the roles download from answers",
    severity="critical",
    remedy="Correct that address (the roles' *_repo_url, *_url, *_key_url), open the way to it (proxy, firewall), or "
    "name a mirror that has it.",
    source="facts/provisioning.md 2.1 and 2.4",
)
def _urls(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["urls"]:
        tally.add(one["problem"] is None, f"{one['url']}: {one['problem'] or 'answers'}")
    if not facts["urls"]:
        tally.ok("nothing is downloaded")
    return tally.verdict()


@host(
    "HOST033",
    "The host has room for driver, CUDA and serving environment",
    severity="critical",
    remedy="Free space or enlarge that file system; preflight_disk says what is asked for, folder by folder.",
    source="installed size of CUDA 13.1's toolkit and of a stack's environment",
)
def _disk(facts: TopicFacts) -> Verdict:
    tally = Tally()
    needed: dict[object, float] = defaultdict(float)
    for folder in facts["disk"]:
        needed[folder["file_system"]] += float(facts["wanted"]["disk_gib"][folder["path"]])
    for file_system, gib in needed.items():
        folders = [one for one in facts["disk"] if one["file_system"] == file_system]
        free = folders[0]["free"] / GIB
        names = ", ".join(one["path"] for one in folders)
        tally.add(free >= gib, f"{names}: {free:.1f} GiB free, {gib:g} needed")
    return tally.verdict()


@host(
    "HOST034",
    "The IOMMU is off or passes through, now or after the bring-up",
    severity="major",
    remedy="Keep iommu=pt in host_base_kernel_arguments (in force after its reboot), or turn the IOMMU off "
    "in the BIOS.",
    source="facts/provisioning.md 2.7 and 3, row 16 (NVIDIA/nccl#1737)",
)
def _iommu(facts: TopicFacts) -> Verdict:
    tally = Tally()
    translating = {kind: n for kind, n in facts["iommu_groups"].items() if kind.startswith("DMA")}
    coming = [one for one in facts["wanted"]["kernel_arguments"] if one in _IDENTITY]
    if not translating:
        tally.ok(f"IOMMU groups by type: {facts['iommu_groups'] or 'none'}")
    else:
        told = ", ".join(f"{n} groups of type {kind}" for kind, n in translating.items())
        tally.add(
            bool(coming),
            f"the IOMMU translates ({told}); {' '.join(coming) or 'no argument'} is to change that",
        )
    return tally.verdict()


@host(
    "HOST035",
    "No package or module is there that fights with what will be installed",
    severity="critical",
    remedy="Remove it (MLNX_OFED by its own ofed_uninstall.sh, or doca_ofed_remove_conflicting: true for one run; the "
    "distribution's NVIDIA packages with apt-get purge or dnf remove), then reboot.",
    source="facts/provisioning.md 2.1, 2.4 and 3, rows 1 and 2",
)
def _packages(facts: TopicFacts) -> Verdict:
    tally, packages, wanted = Tally(), facts["packages"], facts["wanted"]
    if packages is None:
        tally.unknown("neither dpkg nor rpm lists the packages of this host")
        return tally.verdict()
    if not wanted["remove_conflicting"]:
        _told(tally, packages, _OLD_OFED, "is of the stand-alone MLNX_OFED or its peer-memory client")
        if wanted["rdma_stack"] == "inbox":
            _told(tally, packages, _DOCA, "is of DOCA-OFED, and the inbox drivers are wanted")
    _told(
        tally,
        packages,
        _DISTRIBUTION_DRIVER,
        "is the distribution's driver, which NVIDIA's replaces only in part",
    )
    for name in ("nvidia-fs-dkms", "nvidia-fs"):
        # Ubuntu's multiverse writes the CUDA release into the version: 2.19.7~12.4.1-1.
        if "~" in packages.get(name, ""):
            tally.fail(f"{name} {packages[name]} is the distribution's, too old for these drivers")
    if "nv_peer_mem" in facts["modules"]:
        tally.fail("the obsolete module nv_peer_mem is loaded")
    if not tally.failed:
        tally.ok("none of MLNX_OFED, nv_peer_mem, the distribution's driver or its nvidia-fs")
    return tally.verdict()


def _told(tally: Tally, packages: Iterable[str], pattern: re.Pattern[str], why: str) -> None:
    found = sorted(name for name in packages if pattern.match(name))
    if found:
        tally.fail(f"{', '.join(found)} {why}")


@host(
    "HOST036",
    "lldpad does not run",
    severity="major",
    remedy="systemctl disable --now lldpad.service lldpad.socket: it overwrites the ports' priority settings.",
    source="facts/provisioning.md 2.6 (Mellanox/mlnx-tools, mlnx_qos)",
)
def _lldpad(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for unit in facts["lldpad"]:
        tally.fail(f"{unit} runs")
    if not facts["lldpad"]:
        tally.ok("lldpad does not run")
    return tally.verdict()


@host(
    "HOST037",
    "The clock is synchronised",
    severity="major",
    remedy="Set up chrony or systemd-timesyncd (timedatectl set-ntp true): S3 refuses a signature 15 minutes off, and "
    "logs of several hosts are compared.",
    source="S3, Signature Version 4",
)
def _clock(facts: TopicFacts) -> Verdict:
    tally, known = Tally(), facts["clock"]["synchronised"]
    if known is None:
        tally.unknown("timedatectl does not say whether the clock is synchronised")
    else:
        tally.add(known, f"the clock is {'' if known else 'not '}synchronised")
    return tally.verdict()
