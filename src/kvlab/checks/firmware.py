"""Whether firmware is what a stack was accepted with. kvlab reads firmware and never writes it.

Topic `firmware`, from probes.host.firmware: {"bios": {"vendor", "product", "version"}, "nics": [{"name", "psid",
"firmware"}], "gpus_on_bus": count, "gpus": [{"gpu", "name", "vbios"}] or null without nvidia-smi, "stack": name or
null, "accepted": {"bios": {product: [version, ...]}, "nics": {PSID: [version, ...]}, "gpus": {name: [version, ...]}},
of which any can be absent}; a text that could not be read is null.
"""

from __future__ import annotations

import functools
from typing import Any

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

firmware = functools.partial(
    check,
    stage="host",
    severity="minor",
    topic="firmware",
    source="issue 6: firmware is read and compared with the stack's accepted list",
)


def _compare(tally: Tally, facts: TopicFacts, part: str, what: str, model: Any, version: Any) -> None:
    """Judge one device by the stack's list for its model."""
    if not model or not version:
        tally.unknown(f"{what}: {'its model' if not model else f'the firmware of {model}'} could not be read")
        return
    accepted = (facts["accepted"].get(part) or {}).get(model)
    line = f"{what} ({model}) runs {version}"
    if accepted is None:
        tally.unknown(f"{line}; stack {facts['stack'] or 'none'} has no accepted firmware for {model}")
    else:
        tally.add(version in accepted, f"{line}; accepted: {', '.join(accepted)}")


@firmware(
    "FW001",
    "Each NIC runs a firmware that the stack was accepted with",
    remedy="Have the vendor's tool bring the NIC to an accepted firmware, or accept this one under firmware: nics: in "
    "the stack file once it has served. The PSID is the key.",
)
def nics(facts: TopicFacts) -> Verdict:
    """By PSID: two cards of one chip have other firmware."""
    tally = Tally()
    for nic in facts["nics"]:
        _compare(tally, facts, "nics", nic["name"], nic["psid"], nic["firmware"])
    if not facts["nics"]:
        tally.unknown("the host shows no RDMA device; load the NIC's driver")
    return tally.verdict()


@firmware(
    "FW002",
    "The BIOS is one that the stack was accepted with",
    remedy="Have the vendor's tool bring the BIOS to an accepted version, or accept this one under firmware: bios: "
    "in the stack file once it has served. The product's name is the key.",
)
def bios(facts: TopicFacts) -> Verdict:
    """By the product's name."""
    tally, found = Tally(), facts["bios"]
    _compare(tally, facts, "bios", "BIOS", found["product"], found["version"])
    return tally.verdict()


@firmware(
    "FW003",
    "Each GPU has a VBIOS that the stack was accepted with",
    remedy="Have the vendor's tool bring the GPU to an accepted VBIOS, or accept this one under firmware: gpus: in "
    "the stack file once it has served. The GPU's name is the key.",
)
def gpus(facts: TopicFacts) -> Verdict:
    """By the GPU's name, as nvidia-smi says it; one that does not answer is unknown."""
    tally, found = Tally(), facts["gpus"]
    if found is None:
        tally.unknown("nvidia-smi does not answer; install the driver")
        return tally.verdict()
    for gpu in found:
        _compare(tally, facts, "gpus", gpu["gpu"], gpu["name"], gpu["vbios"])
    silent = facts["gpus_on_bus"] - len(found)
    if silent > 0 or not found:
        tally.unknown(f"{len(found)} of {facts['gpus_on_bus']} GPUs on the bus answer nvidia-smi")
    return tally.verdict()
