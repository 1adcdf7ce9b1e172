"""RDMA ports, their GIDs and their quality of service; error counters over time; who can reach whom.

Topic `rdma`, from probes.host.rdma: {"devices": [plugins/module_utils/rdma_sysfs.device + "driver"], "used": [device,
...], "qos": {netdev: qos_state.parse or {"error"}}, "lldpad": bool, "pending": {device: {parameter: [current, next]}}
or null, "ofed": {"userland", "module", "mlx5_core": file} or null, "gid_index": {device: configured index},
"ucx_net_devices": text or null, "ucx_tls": text or null, "default_route": netdev or null}
Topic `rdma_counters`, from the sampler: {"seconds", "deltas": {"device/port": {counter: difference}}, "pause":
{netdev: {"rx_prio3_pause", "tx_prio3_pause"}}, "payload": bytes or null}
Topic `mesh`: {"minimum_gbps", "pairs": [{"from", "to", "gbps": number or null, "error"}]}
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

rdma = functools.partial(check, stage="host", topic="rdma")
counters = functools.partial(check, stage="path", topic="rdma_counters")

MTU = 4200
"""The smallest netdev MTU that leaves room for RDMA's 4096 and its headers."""

LOSSLESS = 3
ERRORS = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "rx_icrc_encapsulated",
          "req_cqe_error", "resp_cqe_error", "symbol_error", "link_downed", "port_rcv_errors")  # fmt: skip
PAUSE_PER_SECOND = 1000
"""A PFC frame pauses at most 0.08 ms at 400 Gb/s: thousands a second are a port that stands, not one that breathes."""


def _ports(facts: TopicFacts) -> Iterator[tuple[str, Any]]:
    """Name and facts of each port that the lab uses; without a list all are."""
    for device in facts["devices"]:
        if not facts["used"] or device["name"] in facts["used"]:
            for port in device["ports"]:
                yield f"{device['name']}/{port['port']}", port


@rdma(
    "RDMA010",
    "Every RDMA port in use is active",
    severity="critical",
    remedy="Plug in or enable the port at both ends (ip link, the switch); a name that is missing was "
    "renamed by udev.",
    source="facts/provisioning.md 2.6",
)
def _active(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for name, port in _ports(facts):
        line = f"{name} ({port['netdev']}): {port['state']}, {port['phys_state']}, {port['rate']}"
        tally.add(port["state"] == "ACTIVE", line)
    names = {device["name"] for device in facts["devices"]}
    for missing in sorted(set(facts["used"]) - names):
        tally.fail(f"{missing} does not exist; there is {', '.join(sorted(names)) or 'no RDMA device'}")
    if not names:
        tally.fail("there is no RDMA device")
    return tally.verdict()


@rdma(
    "RDMA011",
    "Every RDMA port in use has a routable RoCE v2 GID",
    severity="critical",
    remedy="Give the port's netdev its address; link-local and RoCE v1 GIDs do not cross a router.",
    source="facts/provisioning.md 2.6 and 3, row 19 (NVIDIA/nccl#769)",
)
def _gid(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for name, port in _ports(facts):
        good = [g for g in port["gids"] if g["type"] == "RoCE v2" and g["scope"] == "routable"]
        told = ", ".join(f"{g['index']} ({g['ipv4'] or g['gid']})" for g in good)
        tally.add(bool(good), f"{name}: {told or 'none'} of {len(port['gids'])} GIDs")
    return tally.verdict()


@rdma(
    "RDMA012",
    "A GID index that is configured is the right one today",
    severity="critical",
    remedy="Compute the index (module rdma_facts) instead of writing it down: it changes with the order "
    "of addresses.",
    source="facts/provisioning.md 2.6 and 3, row 19 (openucx/ucx#7785)",
)
def _gid_index(facts: TopicFacts) -> Verdict:
    tally = Tally()
    by_device = {name.partition("/")[0]: port for name, port in _ports(facts)}
    for device, index in facts["gid_index"].items():
        found = next((g for g in by_device.get(device, {}).get("gids", ()) if g["index"] == index), None)
        kind = f"{found['type']}, {found['scope']}, {found['ipv4']}" if found else "no GID"
        good = found is not None and (found["type"], found["scope"]) == ("RoCE v2", "routable")
        tally.add(good, f"{device}: configured index {index} is {kind}")
    if not facts["gid_index"]:
        tally.ok("no index is configured")
    return tally.verdict()


@rdma(
    "RDMA013",
    "Ports trust DSCP and have PFC on priority 3 alone",
    severity="major",
    remedy="mlnx_qos -i IF --trust dscp, then --pfc 0,0,0,1,0,0,0,0, at each boot (role rdma_fabric's "
    "unit); the switch too.",
    source="facts/provisioning.md 2.6",
)
def _lossless(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for netdev, state in facts["qos"].items():
        if state.get("error"):
            tally.unknown(f"{netdev}: {state['error']}")
        else:
            good = state["trust"] == "dscp" and state["pfc"] == [LOSSLESS]
            tally.add(good, f"{netdev}: trust {state['trust']}, PFC on {state['pfc'] or 'none'}")
    return tally.verdict()


@rdma(
    "RDMA014",
    "Nothing else rewrites the ports' quality of service",
    severity="major",
    remedy="Stop and mask lldpad, and set DCBX to os (mlnx_qos --dcbx os), or configure the switch to say "
    "the same.",
    source="facts/provisioning.md 2.6",
)
def _dcbx(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(not facts["lldpad"], f"lldpad is {'running' if facts['lldpad'] else 'not running'}")
    for netdev, state in facts["qos"].items():
        if state.get("error"):
            tally.unknown(f"{netdev}: {state['error']}")
        else:
            tally.add(state["dcbx"] == "os", f"{netdev}: DCBX is {state['dcbx']}-controlled")
    return tally.verdict()


@rdma(
    "RDMA015",
    "The netdevs' MTU leaves room for RDMA's 4096 bytes",
    severity="major",
    remedy="Set MTU 9000 on the netdev, on every switch port of the way and on the array; try ping -M do "
    "-s 8972.",
    source="facts/provisioning.md 2.6",
)
def _mtu(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for name, port in _ports(facts):
        if port["mtu"] is None:
            tally.unknown(f"{name}: the MTU of {port['netdev']} cannot be seen")
        else:
            tally.add(port["mtu"] >= MTU, f"{name} ({port['netdev']}): MTU {port['mtu']}")
    return tally.verdict()


@rdma(
    "RDMA016",
    "The NICs can do what S3 over RDMA needs: mlx5, for its DC transport",
    severity="critical",
    remedy="Use a ConnectX NIC; soft-RoCE and other vendors' NICs have no DC transport.",
    source="facts/provisioning.md 2.8",
)
def _dc(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for device in facts["devices"]:
        if not facts["used"] or device["name"] in facts["used"]:
            tally.add(device["driver"] == "mlx5_core", f"{device['name']}: driver {device['driver']}")
    return tally.verdict()


@rdma(
    "RDMA017",
    "The firmware's settings for the next boot are those that run",
    severity="minor",
    remedy="Reboot (or mlxfwreset) when it suits; until then what was configured is not what runs.",
    source="facts/provisioning.md 2.6",
)
def _pending(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["pending"] is None:
        tally.unknown("mlxconfig could not be asked")
    for device, settings in (facts["pending"] or {}).items():
        told = ", ".join(f"{name} {now} -> {then}" for name, (now, then) in settings.items())
        tally.add(not settings, f"{device}: {told or 'nothing waits for a reset'}")
    return tally.verdict()


@rdma(
    "RDMA018",
    "OFED's user space and kernel modules are one release, and its mlx5_core is the one loaded",
    severity="major",
    remedy="Reboot after the OFED change; if mlx5_core still comes from kernel/drivers, its DKMS build "
    "failed (HOST053).",
    source="facts/provisioning.md 2.4",
)
def _ofed(facts: TopicFacts) -> Verdict:
    tally, ofed = Tally(), facts["ofed"]
    if ofed is None:
        tally.ok("the kernel's own RDMA stack is used")
        return tally.verdict()
    tally.add(
        ofed["module"] in ofed["userland"] or ofed["userland"] in ofed["module"],
        f"user space {ofed['userland']}, kernel module {ofed['module']}",
    )
    tally.add("/updates/" in ofed["mlx5_core"], f"mlx5_core is {ofed['mlx5_core']}")
    return tally.verdict()


@rdma(
    "RDMA019",
    "UCX does not take the management NIC",
    severity="major",
    remedy="Set UCX_NET_DEVICES to the fabric's devices (mlx5_0:1,…) in the service's environment.",
    source="facts/provisioning.md 3, row 20 (openucx/ucx#9727)",
)
def _ucx_devices(facts: TopicFacts) -> Verdict:
    tally, chosen = Tally(), facts["ucx_net_devices"]
    management = [
        d["name"] for d in facts["devices"] for p in d["ports"] if p["netdev"] == facts["default_route"]
    ]
    if not management:
        tally.ok(f"the management NIC {facts['default_route']} is no RDMA device")
    else:
        good = chosen is not None and not any(name in chosen for name in management)
        tally.add(
            good, f"UCX_NET_DEVICES is {chosen or 'not set'}; {', '.join(management)} carries management"
        )
    return tally.verdict()


@rdma(
    "RDMA020",
    "UCX is not told to use TCP",
    severity="major",
    remedy="Remove UCX_TLS, or name rc and cuda transports in it; then prove the path by counters (PATH010).",
    source="facts/provisioning.md 3, row 24 (ai-dynamo/nixl#1097)",
)
def _ucx_tls(facts: TopicFacts) -> Verdict:
    tally, chosen = Tally(), facts["ucx_tls"]
    words = {word.strip() for word in (chosen or "").split(",") if word.strip()}
    fast = any(word.startswith(("rc", "dc", "ud", "ib", "all", "^")) for word in words)
    tally.add(not words or fast, f"UCX_TLS is {chosen or 'not set'}")
    return tally.verdict()


@counters(
    "RDMA021",
    "No error counter of the fabric moved",
    severity="major",
    remedy="Out of sequence: packets were dropped, so PFC or ECN is missing on a hop. Symbol errors: "
    "cable or transceiver.",
    source="facts/provisioning.md 3.1",
)
def _errors(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for port, deltas in facts["deltas"].items():
        moved = {name: deltas[name] for name in ERRORS if deltas.get(name)}
        told = ", ".join(f"{name} +{count}" for name, count in moved.items())
        tally.add(not moved, f"{port}: {told or 'none'} in {facts['seconds']:.0f} s")
    return tally.verdict()


@counters(
    "RDMA022",
    "No port stands in a storm of pause frames",
    severity="major",
    remedy="Find the slow receiver behind that port (it sends the pauses), and set the switch's PFC "
    "watchdog.",
    source="facts/provisioning.md 3.1; issue 8",
)
def _pauses(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for netdev, frames in facts["pause"].items():
        for name, count in frames.items():
            rate = count / max(facts["seconds"], 0.001)
            tally.add(rate < PAUSE_PER_SECOND, f"{netdev}: {name} +{count}, {rate:.0f} a second")
    return tally.verdict()


@check(
    "RDMA023",
    "Every NIC reaches every other, at the fabric's rate",
    stage="path",
    severity="critical",
    topic="mesh",
    remedy="Rails on separate leaves need a route between them: use pairs of one rail, or connect the "
    "leaves.",
    source="facts/provisioning.md 2.7 and 3, row 21 (openucx/ucx#10996)",
)
def _mesh(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for pair in facts["pairs"]:
        rate = pair["gbps"]
        line = f"{pair['from']} to {pair['to']}: {pair['error'] if rate is None else f'{rate:.0f} Gb/s'}"
        tally.add(rate is not None and rate >= facts["minimum_gbps"], line)
    return tally.verdict()
