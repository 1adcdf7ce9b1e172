"""PCIe, network, clock and files of a host.

Topic `pcie`, from probes.host.pcie: {"virtual": bool, "iommu_groups": {type: count}, "cmdline": [argument, ...],
"bridges": [{"bdf", "acs": control word or null}], "devices": [{"bdf", "kind": "gpu"|"nic", "speed", "max_speed": GT/s
or null, "width", "max_width": lanes or null, "max_read_request": bytes or null}]}
Topic `network`: {"default_route": netdev or null, "mlx5": [netdev, ...], "addresses": {netdev: ["192.0.2.1/24"]},
"rp_filter": {"all"|netdev: int}, "arp_ignore": {...}, "source_rules": bool, "openibd": bool}
Topic `clock`: {"offset_s", "uncertainty_s", "synchronised": bool or null}
Topic `files`: {"secrets": [{"path", "mode": octal text, "owner"}]}
Topic `urls`: {"urls": [{"url", "status": int or null, "error"}]}
"""

from __future__ import annotations

import ipaddress

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

ACS_REDIRECT = 0b11101
"""Source validation, request redirect, completion redirect and upstream forwarding: each sends peer traffic upward."""

READ_REQUEST = 4096
SKEW_LIMIT_S = 60.0
"""S3 refuses a signature that is 15 minutes off; a minute is already no accident, and spoils logs of several hosts."""


@check(
    "HOST060",
    "The IOMMU is off or passes through",
    stage="host",
    severity="major",
    topic="pcie",
    remedy="Boot with iommu=pt (or without an IOMMU): translation sends peer-to-peer traffic through the "
    "root complex.",
    source="facts/provisioning.md 2.7 and 3, row 16 (NVIDIA/nccl#1737)",
)
def _iommu(facts: TopicFacts) -> Verdict:
    tally = Tally()
    translating = {kind: n for kind, n in facts["iommu_groups"].items() if kind.startswith("DMA")}
    if facts["virtual"]:
        tally.ok("a virtual machine; its host decides")
    elif translating:
        told = ", ".join(f"{n} groups of type {kind}" for kind, n in translating.items())
        tally.fail(
            f"the IOMMU translates: {told}; the command line is {' '.join(facts['cmdline'][:12]) or 'empty'}"
        )
    else:
        tally.ok(f"IOMMU groups by type: {facts['iommu_groups'] or 'none'}")
    return tally.verdict()


@check(
    "HOST061",
    "No PCIe bridge redirects peer-to-peer traffic (ACS)",
    stage="host",
    severity="major",
    topic="pcie",
    remedy="Clear it at each boot: setpci -s BDF ECAP_ACS+0x6.w=0000; not in a virtual machine, and not where VFIO "
    "needs isolation.",
    source="facts/provisioning.md 2.7 and 3, row 16 (linux-rdma/perftest#241)",
)
def _acs(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["virtual"]:
        tally.ok("a virtual machine; ACS is its host's")
        return tally.verdict()
    known = [bridge for bridge in facts["bridges"] if bridge["acs"] is not None]
    for bridge in known:
        if bridge["acs"] & ACS_REDIRECT:
            tally.fail(f"bridge {bridge['bdf']}: ACSCtl is {bridge['acs']:#06x}")
    if facts.get("config_readable") is False:
        tally.unknown("the configuration space cannot be read; run this as root")
    elif not tally.failed:
        tally.ok(f"{len(facts['bridges'])} bridges, {len(known)} with ACS, none redirects")
    return tally.verdict()


@check(
    "HOST062",
    "GPUs and NICs have their full PCIe width and speed",
    stage="host",
    severity="major",
    topic="pcie",
    remedy="Reseat the card or riser and look for PCIe errors in the kernel log; a link that trained down halves "
    "the path. GPUs may lower their speed when idle: look again under load.",
    source="facts/provisioning.md 2.7",
)
def _links(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for device in facts["devices"]:
        have, most = (device["speed"], device["width"]), (device["max_speed"], device["max_width"])
        line = f"{device['kind']} {device['bdf']}: {have[0]} GT/s x{have[1]} of {most[0]} GT/s x{most[1]}"
        if None in (*have, *most):
            tally.unknown(line)
        else:
            # An idle GPU lowers its speed, never its width.
            tally.add(have[1] >= most[1] and (have[0] >= most[0] or device["kind"] == "gpu"), line)
    return tally.verdict()


@check(
    "HOST063",
    "NICs may read 4096 bytes at a time (MaxReadReq)",
    stage="host",
    severity="minor",
    topic="pcie",
    remedy="Set it at each boot: setpci -s BDF CAP_EXP+8.w=5000:F000 (role rdma_fabric's unit does).",
    source="facts/provisioning.md 2.6",
)
def _read_request(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for device in facts["devices"]:
        if device["kind"] != "nic":
            continue
        size = device["max_read_request"]
        line = f"nic {device['bdf']}: MaxReadReq {size}"
        if size is None:
            tally.unknown(f"{line}; the configuration space cannot be read; run this as root")
        else:
            tally.add(size >= READ_REQUEST, line)
    return tally.verdict()


@check(
    "HOST064",
    "The way to the host does not run over a NIC that openibd restarts",
    stage="host",
    severity="major",
    topic="network",
    remedy="Manage the host over another NIC, or let OFED changes wait for a reboot: a restart of openibd "
    "ends the session.",
    source="facts/provisioning.md 2.4 and 3, row 8 (Mellanox/network-operator#2176)",
)
def _management(facts: TopicFacts) -> Verdict:
    tally, route = Tally(), facts["default_route"]
    if route is None:
        tally.unknown("the host has no default route")
    else:
        good = route not in facts["mlx5"] or not facts["openibd"]
        tally.add(
            good, f"the default route is {route}; mlx5 netdevs are {', '.join(facts['mlx5']) or 'none'}"
        )
    return tally.verdict()


@check(
    "HOST065",
    "NICs of one subnet answer for themselves, and replies leave where requests came in",
    stage="host",
    severity="critical",
    topic="network",
    remedy="Give each NIC its own subnet; or set rp_filter=2, arp_ignore=1 or 2 and a routing table for "
    "each source address.",
    source="facts/provisioning.md 2.6",
)
def _same_subnet(facts: TopicFacts) -> Verdict:
    tally = Tally()
    members: dict[str, list[str]] = {}
    for netdev in facts["mlx5"]:
        for address in facts["addresses"].get(netdev, []):
            interface = ipaddress.ip_interface(address)
            if interface.version == 4:
                members.setdefault(str(interface.network), []).append(netdev)
    for subnet, netdevs in members.items():
        if len(netdevs) < 2:
            tally.ok(f"{subnet} is {netdevs[0]}'s alone")
            continue
        for netdev in netdevs:
            strict = max(facts["rp_filter"].get("all", 0), facts["rp_filter"].get(netdev, 0)) == 1
            arp = max(facts["arp_ignore"].get("all", 0), facts["arp_ignore"].get(netdev, 0))
            line = f"{netdev} shares {subnet}: rp_filter {'strict' if strict else 'not strict'}, arp_ignore {arp}"
            tally.add(not strict and arp in (1, 2) and facts["source_rules"], line)
    return tally.verdict()


@check(
    "HOST066",
    "The host's clock agrees with the controller's",
    stage="host",
    severity="critical",
    topic="clock",
    remedy="Start chrony (or systemd-timesyncd) on the host; a store refuses signatures that are 15 "
    "minutes off.",
    source="facts/objectscale.md; issue 8, drill clock skew",
)
def _clock(facts: TopicFacts) -> Verdict:
    tally, off = Tally(), facts["offset_s"]
    line = f"{off:+.2f} s against the controller, known to {facts['uncertainty_s']:.2f} s"
    if facts["uncertainty_s"] > SKEW_LIMIT_S:
        tally.unknown(line)
    else:
        tally.add(abs(off) <= SKEW_LIMIT_S + facts["uncertainty_s"], line)
    return tally.verdict()


@check(
    "HOST067",
    "Files with a secret are for their owner alone",
    stage="host",
    severity="critical",
    topic="files",
    remedy="chmod 0600 that file, and change the secret: others could read it (ansible-playbook "
    "playbooks/rotate.yml).",
    source="design.md, Decisions (secrets); issue 8, drill secret world-readable",
)
def _secrets(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for file in facts["secrets"]:
        tally.add(
            int(file["mode"], 8) & 0o077 == 0,
            f"{file['path']} has mode {file['mode']}, owner {file['owner']}",
        )
    return tally.verdict()


@check(
    "HOST068",
    "The vendors' addresses in the inventory answer",
    stage="preflight",
    severity="major",
    topic="urls",
    remedy="Correct the address, or mirror it: vendors move packages, and a bring-up stops in the middle.",
    source="facts/provisioning.md 3, row 5 (NVIDIA/deepops#1100)",
)
def _urls(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["urls"]:
        good = one["status"] is not None and one["status"] < 400
        tally.add(good, f"{one['url']}: {one['status'] or one['error']}")
    return tally.verdict()
