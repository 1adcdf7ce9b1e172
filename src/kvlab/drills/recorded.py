"""Faults that this machine cannot have, or not without a start of vLLM: facts or a log of the healthy lab, changed.

What is changed is what a field report or a public log says; that the probe would see it so is not shown here.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvlab.doctor import fleet
from kvlab.doctor.labfacts import LAB
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Origin, Scene, Switch

Change = Callable[[dict[str, Any]], None]
CUFILE = "/usr/local/cuda-13.1/lib64/libcufile.so.1.16.1"
TORCHS_CUFILE = "venv/nvidia/cu13/lib/libcufile.so.1.15.1"
GIB = 1 << 30


def _topic(topic: str, change: Change) -> Callable[[Bench], Scene]:
    """A topic of the healthy lab, changed."""

    def scene(bench: Bench) -> Scene:
        healthy, switch = bench.host_facts(topic), Switch()

        def look() -> dict[str, Any]:
            facts = copy.deepcopy(healthy)
            if switch.on:
                change(facts)
            return {topic: facts}

        return Scene(look, switch.thrown)

    return scene


def _two_hosts(change: Change) -> Callable[[Bench], Scene]:
    """Topic `fleet` of the healthy lab's host and a copy of it, which is changed."""

    def scene(bench: Bench) -> Scene:
        topics = {topic: bench.host_facts(topic) for topic in ("processes", "vllm", "lmcache")}
        switch = Switch()

        def look() -> dict[str, Any]:
            second = copy.deepcopy(topics)
            if switch.on:
                change(second)
            return {"fleet": fleet.with_comparisons({"first": topics, "second": second})[LAB]["fleet"]}

        return Scene(look, switch.thrown)

    return scene


def _log(line: str) -> Callable[[Bench], Scene]:
    """Topic `lmcache_log` of a copy of the running server's log, with one line more."""

    def scene(bench: Bench) -> Scene:
        switch = Switch()

        def look() -> dict[str, Any]:
            log = bench.lab.state_dir / "log" / f"lmcache-{bench.profile}.log"
            with tempfile.TemporaryDirectory(prefix="kvlab-drill-") as folder:
                copied = Path(folder, log.name)
                copied.write_bytes(log.read_bytes() + (f"{line}\n".encode() if switch.on else b""))
                return bench.look("lmcache_log", log=str(copied))

        return Scene(look, switch.thrown)

    return scene


def _counters(bench: Bench) -> Scene:
    """Topic `transfer_counters`: what a ConnectX-7 would count for 1 GiB; this machine has no such NIC."""
    moved, still = {"rdma": GIB, "tcp": 400_000}, {"rdma": 0, "tcp": GIB}
    switch = Switch()

    def look() -> dict[str, Any]:
        facts = {
            "simulated": bench.simulated,
            "lab_simulated": bench.simulated,
            "payload": GIB,
            "direction": "in",
            "seconds": 0.05,
            "quiet": {"rdma": 0, "tcp": 9000},
            "client": still if switch.on else moved,
            "server": moved,
            "control": {"payload": GIB, **still},
        }
        return {"transfer_counters": facts}

    return Scene(look, switch.thrown)


def _without_engine(venv: dict[str, Any]) -> None:
    venv["plugin_needs"] = [name for name in venv["plugin_needs"] if not name.startswith("libcuobjclient")]
    for name in venv["versions"]:
        if name.startswith("nixl"):
            venv["versions"][name] = "1.1.0"


def _two_cufiles(facts: dict[str, Any]) -> None:
    found = [
        {
            "name": Path(path).name,
            "path": path,
            "version": path.partition(".so.")[2],
            "rdma_descriptors": good,
        }
        for path, good in ((TORCHS_CUFILE, False), (CUFILE, True))
    ]
    facts["processes"][0]["libraries"] += found


def _other_seed(host: dict[str, Any]) -> None:
    for process in host["processes"]["processes"]:
        process["environment"]["PYTHONHASHSEED"] = "7"


def _other_chunks(host: dict[str, Any]) -> None:
    host["lmcache"]["chunk_tokens"] *= 2


def _other_dtype(host: dict[str, Any]) -> None:
    host["vllm"]["kv_dtype"] = "fp8"


def _drill(
    name: str,
    breaks: str,
    staged: str,
    expects: str,
    scene: Callable[[Bench], Scene],
    *,
    reference: str,
    origin: Origin = "field report",
    words: str = "",
    needs: tuple[str, ...] = (),
) -> Drill:
    return Drill(name, "facts", breaks, staged, origin, reference, expects, scene, words=words, needs=needs)


CACHE = ("a running profile with LMCache",)
RDMA = ("profile s3-rdma running",)
_SECOND = "the healthy lab's facts as those of two hosts; of the second, "
_LOGGED = "a copy of the running server's log with the line that LMCache or NIXL writes then"

DRILLS = (
    _drill(
        "engine-absent-from-wheel", "the NIXL wheel is one without the accelerated engine",
        "facts of the serving environment, changed: NIXL 1.1.0, its OBJ plugin not linked to libcuobjclient", "NIXL012",
        _topic("venv", _without_engine), reference="facts/kv_bench.md 0, fact 2", words="not linked", needs=RDMA,
    ),
    _drill(
        "two-libcufile", "a serving process has torch's libcufile loaded beside CUDA's",
        "facts of the running processes, changed: both libraries are loaded", "GDS001",
        _topic("processes", _two_cufiles), reference="pytorch/pytorch pull request 148137; facts/provisioning.md 2.8c",
        words="1.15.1",
    ),
    _drill(
        "port-counter-not-moving", "the RDMA counters of the NIC stand still while bytes arrive by TCP",
        "facts written here: counters of a NIC around 1 GiB; no NIC was at hand", "PATH010", _counters,
        reference="LMCache/LMCache issue 605; facts/provisioning.md 3.1", words="0 bytes by RDMA",
    ),
    _drill(
        "hash-seed-differs", "a second host names its chunks with another PYTHONHASHSEED",
        _SECOND + "PYTHONHASHSEED is 7", "LMC141", _two_hosts(_other_seed),
        reference="LMCache/LMCache issue 1842; facts/kv_bench.md 0, fact 6", words="7 on second",
    ),
    _drill(
        "chunk-size-of-a-host-differs", "a second host cuts prompts into chunks of another size",
        _SECOND + "chunks are twice as long", "LMC143", _two_hosts(_other_chunks), origin="thought up here",
        reference="issue 8; facts/kv_bench.md 4.5", words="on second", needs=CACHE,
    ),
    _drill(
        "kv-dtype-of-a-host-differs", "a second host keeps KV in fp8", _SECOND + "kv_cache_dtype is fp8",
        "VLLM030", _two_hosts(_other_dtype), reference="facts/kv_bench.md 0, fact 7", words="fp8 on second",
    ),
    _drill(
        "lmcache-degraded", "LMCache failed to start its storage and went on without any", _LOGGED, "LMC132",
        _log("ERROR: LMCache is running in degraded mode (recompute)"),
        reference="facts/kv_bench.md 0, fact 3; facts/local_stack.md", words="degraded mode", needs=CACHE,
    ),
    _drill(
        "pool-exhausted", "the pool of slots ran out; requests succeed, and nothing more is stored", _LOGGED, "LMC130",
        _log("WARNING: Insufficient NIXL storage capacity"), reference="facts/local_stack.md",
        words="Insufficient NIXL storage capacity", needs=CACHE,
    ),
    _drill(
        "no-handler-in-the-log", "LMCache had no handler for the transfer mode that vLLM asked for", _LOGGED, "LMC131",
        _log("ERROR: No handler registered"), reference="facts/local_stack.md", words="No handler registered",
        needs=CACHE,
    ),
    _drill(
        "cuobject-not-connected", "the accelerated engine did not connect, and its back end was made all the same",
        _LOGGED, "NIXL018", _log("CUObjClient failed to connect"), reference="facts/provisioning.md 3, row 48",
        words="failed to connect", needs=CACHE,
    ),
)  # fmt: skip
