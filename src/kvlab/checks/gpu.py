"""Whether a GPU host has what a stack asks of it, before anything is built for it.

Topic `gpu_host`: {"stack", "driver": version of the loaded NVIDIA driver or "", "driver_minimum",
"packages": [{"name", "wanted": version, "status": dpkg's status and version, such as "installed 1.0.0.26-1", or ""}]}
"""

from __future__ import annotations

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check
from kvlab.kvcache.versions import release


@check(
    "GPU001",
    "The NVIDIA driver is new enough for the stack",
    stage="host",
    severity="critical",
    topic="gpu_host",
    remedy="Install that driver (or newer) and load it, or choose another stack.",
    source="facts/provisioning.md 2.2",
)
def driver(facts: TopicFacts) -> Verdict:
    """The version of the loaded kernel module against the stack's minimum."""
    tally, found = Tally(), facts["driver"]
    need = f"the stack {facts['stack']} needs {facts['driver_minimum']} or newer"
    if found:
        new_enough = release(found) >= release(facts["driver_minimum"])
        tally.add(new_enough, f"the NVIDIA driver is {found}; {need}")
    else:
        tally.fail(f"the NVIDIA driver is not loaded; {need}")
    return tally.verdict()


@check(
    "GPU002",
    "The host's CUDA packages are those of the stack or newer",
    stage="host",
    severity="critical",
    topic="gpu_host",
    remedy="Install them from the CUDA repository.",
    source="facts/stacks.md 3",
)
def packages(facts: TopicFacts) -> Verdict:
    """Each package's installed version against the wanted one."""
    tally = Tally()
    for package in facts["packages"]:
        name, wanted = package["name"], package["wanted"]
        status, _, version = package["status"].partition(" ")
        if status != "installed":
            tally.fail(f"{name} is not installed; install {wanted} or newer")
        else:
            good = release(version) >= release(wanted)
            tally.add(good, f"{name} is {version}; the stack needs {wanted} or newer")
    if not facts["packages"]:
        tally.ok("the stack asks for no package of the host")
    return tally.verdict()
