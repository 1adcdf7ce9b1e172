"""Whether the hardware of a GPU host is sound, before software is accepted on it.

Topic `burn_in`, from the Ansible module burn_in_facts: {"gpus": [PCI address, ...], "links": [{"kind": "gpu"|"nic",
"address", "speed", "max_speed": GT/s or null, "width", "max_width": lanes or null}], "ecc": [{"gpu", "uncorrected":
int or null}] or null, "rows": [{"gpu", "uncorrectable": int or null, "pending", "failure": bool or null}] or null,
"xids": [{"address", "code"}] or null, "dcgm": [{"test", "status", "detail"}] or null, "dcgm_installed": bool,
"xids_harmless": [code, ...] from the inventory}
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

burn_in = functools.partial(check, stage="host", topic="burn_in")


@burn_in(
    "HOST040",
    "GPUs have no uncorrected ECC error, and no row waits to be remapped or could not be",
    severity="critical",
    remedy="Pending: reset the GPU or reboot, then run the burn-in again. A failed remapping or an error that comes "
    "back: have the GPU replaced.",
    source="NVIDIA, GPU memory error management",
)
def _memory(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if not facts["gpus"]:
        tally.ok("the host has no GPU, so nothing was judged")
        return tally.verdict()
    if facts["ecc"] is None or facts["rows"] is None:
        tally.unknown("nvidia-smi does not answer, so ECC and remapped rows cannot be seen")
        return tally.verdict()
    for gpu in facts["ecc"]:
        count = gpu["uncorrected"]
        if count is None:
            tally.unknown(f"{gpu['gpu']}: ECC is off or not counted")
        else:
            tally.add(count == 0, f"{gpu['gpu']}: {count} uncorrected ECC errors since the driver was loaded")
    for gpu in facts["rows"]:
        if None in (gpu["pending"], gpu["failure"]):
            tally.unknown(f"{gpu['gpu']}: the state of remapped rows is not told")
        elif gpu["pending"] or gpu["failure"]:
            tally.fail(f"{gpu['gpu']}: a row remapping {'failed' if gpu['failure'] else 'is pending'}")
        else:
            tally.ok(f"{gpu['gpu']}: {gpu['uncorrectable']} rows remapped, none pending")
    seen = len(facts["ecc"])
    if seen != len(facts["gpus"]):
        tally.fail(f"nvidia-smi shows {seen} of {len(facts['gpus'])} GPUs on the PCI bus")
    return tally.verdict()


@burn_in(
    "HOST041",
    "The kernel's log has no Xid since the boot",
    severity="critical",
    remedy="Look the code up in NVIDIA's list of Xids; 48, 63, 64, 74, 79, 94 and 95 point at hardware. A code that is "
    "known to be harmless goes into burn_in_xids_harmless.",
    source="NVIDIA, Xid errors; facts/provisioning.md 3",
)
def _xids(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["xids"] is None:
        tally.unknown("the kernel's log cannot be read; run this as root")
        return tally.verdict()
    for one in facts["xids"]:
        harmless = one["code"] in facts["xids_harmless"]
        tally.add(
            harmless,
            f"Xid {one['code']} of {one['address']}{', which is taken for harmless' if harmless else ''}",
        )
    if not facts["xids"]:
        tally.ok("no Xid")
    return tally.verdict()


@burn_in(
    "HOST042",
    "GPUs and NICs run at the width and speed that their slots allow",
    severity="critical",
    remedy="Reseat the card or riser and look for PCIe errors in the kernel log; a link that trained down halves the "
    "path.",
    source="facts/provisioning.md 2.7",
)
def _links(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["links"]:
        have, most = (one["speed"], one["width"]), (one["max_speed"], one["max_width"])
        line = f"{one['kind']} {one['address']}: {have[0]} GT/s x{have[1]} of {most[0]} GT/s x{most[1]}"
        if None in (*have, *most):
            tally.unknown(line)
        else:
            # An idle GPU lowers its speed, never its width.
            tally.add(have[1] >= most[1] and (have[0] >= most[0] or one["kind"] == "gpu"), line)
    if not facts["links"]:
        tally.ok("the host has neither GPU nor RDMA NIC, so nothing was judged")
    return tally.verdict()


@burn_in(
    "HOST043",
    "DCGM's diagnostic finds nothing",
    severity="critical",
    remedy="Run dcgmi diag on that host by itself and follow what it says.",
    source="NVIDIA, DCGM diagnostics",
)
def _dcgm(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["dcgm"] is None:
        why = "was not asked for" if facts["dcgm_installed"] else "is not installed"
        tally.ok(f"dcgmi {why if facts['gpus'] else 'has no GPU to look at'}, so nothing was judged")
        return tally.verdict()
    for one in facts["dcgm"]:
        line = f"{one['test']}: {one['status']}" + (f" ({one['detail']})" if one["detail"] else "")
        tally.add(one["status"] in ("Pass", "Skip"), line)
    if not any(one["status"] == "Pass" for one in facts["dcgm"]) and not tally.failed:
        tally.fail("dcgmi skipped every test")
    return tally.verdict()


@check(
    "HOST044",
    "Each rail of the host is as fast as the lab's floor, to and from the other hosts",
    stage="host",
    severity="critical",
    topic="burn_in_rails",
    remedy="Look at that rail's link, cable, switch port and PFC, and at the NIC's PCIe link (HOST042), then run the "
    "burn-in again.",
    source="perftest, ib_write_bw",
)
def _rails(facts: TopicFacts) -> Verdict:
    """A slow measurement counts against the host that most of whose measurements on the rail are slow, else both."""
    tally, host, floor = Tally(), facts["host"], facts["floor_gbits"]
    for rail in sorted({one["rail"] for one in facts["measured"]}):
        here = [one for one in facts["measured"] if one["rail"] == rail]
        slow = [one for one in here if one["gbits"] is None or one["gbits"] < floor]
        culprits = {name for one in slow for name in _ends(one) if _mostly_slow(name, here, slow)}
        for one in here:
            if host not in _ends(one):
                continue
            mine = one in slow and (host in culprits or not culprits & set(_ends(one)))
            got = one["problem"] if one["gbits"] is None else f"{one['gbits']:g} Gbit/s"
            tally.add(
                not mine, f"rail {rail}, {one['client']} to {one['server']}: {got}; the floor is {floor:g}"
            )
    return tally.verdict()


def _ends(measured: TopicFacts) -> tuple[str, str]:
    return measured["client"], measured["server"]


def _mostly_slow(name: str, here: list[TopicFacts], slow: list[TopicFacts]) -> bool:
    mine = [one for one in here if name in _ends(one)]
    return 2 * sum(one in slow for one in mine) > len(mine)
