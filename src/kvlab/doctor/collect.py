"""Collects the facts of a lab: host probes on every host at once, then what is asked from the controller.

Which topics a host must have facts about follows from what the lab says that it is: bare-host topics where kvlab
provisions the host (kvlab_provision), serving topics where a profile runs there.
"""

from __future__ import annotations

import concurrent.futures
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvlab.doctor import configuration, hosts, store
from kvlab.doctor.labfacts import LAB, LabFacts, Problem
from kvlab.errors import KvlabError

Tell = Callable[[str], None]

PROVISIONED = ("kernel", "pcie", "network", "driver", "gpu_topology", "rdma", "firmware", "packages")
WORKERS = 32


def lab(inventory: Path | None, tell: Tell, *, round_trip: bool = False) -> LabFacts:
    """The facts of an inventory's lab, or of the local lab.

    Raises:
        KvlabError: there is no lab here, the inventory cannot be read, or a round trip is asked of an inventory.
    """
    if inventory is None:
        return _local(tell, round_trip=round_trip)
    if round_trip:
        raise KvlabError("--round-trip moves bytes in the local lab; leave it out with an inventory.")
    return _remote(inventory, tell)


def now() -> str:
    """This moment, as a facts file says it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _local(tell: Tell, *, round_trip: bool) -> LabFacts:
    from kvlab.serving import lab as labs
    from kvlab.serving import processes, profiles

    found = labs.load()
    data = found.data
    running = profiles.running(found) or found.configured_profile
    profile = found.profiles[running]
    cached = profile["mode"] != "none"
    tell(f"probing this machine (profile {running})")
    topics = ["files", "processes", "vllm", "venv", "profile"] + (
        ["lmcache", "lmcache_log"] if cached else []
    )
    job = {
        "topics": topics,
        "secrets": [f"{found.state_dir}/secrets/*", f"{found.state_dir}/etc/profiles/*/secret.env"],
        "expected": ["vllm", *(["lmcache"] if cached else [])],
        "registers": 0,
        "nofile_needed": 1024,
        "pids": [process.pid for process in processes.of_lab(found.state_dir)],
        "lmcache_url": f"http://{data['address']}:{data['ports']['lmcache_http']}",
        "vllm_url": f"http://{data['address']}:{data['ports']['vllm']}",
        "connector": cached,
        "log": str(found.state_dir / "log" / f"lmcache-{running}.log"),
        "profile_dir": profile["dir"],
        "venv": configuration.venv_job(
            str(data["stack"]), data["serving_python"], str(data["lib_dir"]), profile
        ),
    }
    host = hosts.Host("localhost", {"ansible_connection": "local"})
    facts, _ = hosts.collect(host, job)
    facts = configuration.with_config(facts, running)
    facts = _labelled(facts, found.simulated)
    applies = {host.name: ("clock", "config", *(t for t in topics if t != "profile"))}
    lab_topics: dict[str, Any] = {}
    if profile.get("bucket"):
        tell("asking the object store")
        names = [p["bucket"] for p in found.profiles.values() if p.get("bucket")]
        wanted: dict[str, Callable[[], dict[str, Any]]] = {
            "s3": lambda: store.object_store(data, profile, simulated=found.simulated)
        }
        if (found.state_dir / "secrets/objectscale_management_password").exists():
            wanted["objectscale"] = lambda: store.management(data, profile, names, simulated=found.simulated)
        lab_topics = _with_quota({topic: _asked(topic, ask) for topic, ask in wanted.items()})
        applies[LAB] = tuple(wanted)
    if round_trip and profile.get("bucket"):
        tell("moving bytes through NIXL")
        from kvlab.doctor import roundtrip

        lab_topics |= roundtrip.collect(found, running)
        applies[LAB] = (*applies[LAB], "roundtrip", "path")
    everything = {host.name: facts, **({LAB: lab_topics} if lab_topics else {})}
    return LabFacts("local", found.simulated, now(), everything, applies)


def _remote(inventory: Path, tell: Tell) -> LabFacts:
    tell(f"reading {inventory}")
    members = hosts.of_inventory(inventory)
    jobs = {host.name: _job(host) for host in members}
    found: dict[str, Mapping[str, Any]] = {}
    applies: dict[str, tuple[str, ...]] = {}
    problems: list[Problem] = []
    tell(f"probing {len(members)} host(s)")
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        running = {pool.submit(hosts.collect, host, jobs[host.name]): host for host in members}
        for number, done in enumerate(concurrent.futures.as_completed(running), 1):
            host = running[done]
            facts, reason = done.result()
            tell(f"{number}/{len(members)} {host.name}{f': {reason}' if reason else ''}")
            if reason:
                problems.append(Problem(host.name, "", reason))
                continue
            facts = configuration.with_config(facts, str(host.get("kvlab_active_profile", "")))
            found[host.name] = _labelled(facts, bool(host.get("kvlab_simulated")))
            topics = [t for t in jobs[host.name]["topics"] if t not in ("profile", "packages")]
            applies[host.name] = (
                "clock",
                *topics,
                *(["config"] if "profile" in jobs[host.name]["topics"] else []),
            )
    order = [host.name for host in members if host.name in found]
    return LabFacts(
        inventory.name,
        any(host.get("kvlab_simulated") for host in members),
        now(),
        {name: found[name] for name in order},
        {name: applies[name] for name in order},
        tuple(sorted(problems, key=lambda problem: problem.host)),
    )


def _job(host: hosts.Host) -> dict[str, Any]:
    """What to collect on a host of an inventory, by its own variables."""
    topics = [*(PROVISIONED if host.get("kvlab_provision") else ())]
    job: dict[str, Any] = {}
    firmware = configuration.firmware_job(str(host.get("inference_stack_name")))
    profile, folder = host.get("kvlab_active_profile"), host.get("serving_profiles_dir")
    if host.get("kvlab_serving_mode", "managed") == "managed" and profile and folder:
        cached = profile != "baseline"
        topics += ["processes", "vllm", "profile", "files", *(["lmcache"] if cached else [])]
        ports, address = host.get("serving_ports", {}), host.get("serving_address", "127.0.0.1")
        directory = f"{folder}/{profile}"
        job = {
            "expected": ["vllm", *(["lmcache"] if cached else [])],
            "vllm_url": f"http://{address}:{ports.get('vllm', 8000)}",
            "lmcache_url": f"http://{address}:{ports.get('lmcache_http', 8080)}",
            "connector": cached,
            "profile_dir": directory,
            "secrets": [f"{folder}/*/secret.env"],
            "cufile": f"{directory}/cufile.json",
            "path": "file" if profile == "file" else "object",
        }
        # cufile.json is read by the accelerated engine and by GPUDirect Storage alone.
        topics += ["gds"] if host.get("kvlab_provision") and profile in ("s3-rdma", "file") else []
        if host.get("serving_venv") and host.get("inference_stack_name"):
            topics.append("venv")
            python, library = f"{host.get('serving_venv')}/bin/python", host.get("inference_stack_lib_dir")
            job["venv"] = configuration.venv_job(str(host.get("inference_stack_name")), python, library, {})
    return {**job, "firmware": firmware, "topics": topics}


def _labelled(facts: Mapping[str, Any], simulated: bool) -> dict[str, Any]:
    """The facts with each topic marked as the lab is, but where its probe knows better."""
    return {
        topic: one if one.get("simulated") is not None else {**one, "simulated": simulated}
        for topic, one in facts.items()
    }


def _with_quota(topics: dict[str, Any]) -> dict[str, Any]:
    """The bucket's quota beside what S3 says of it, where the management API told one."""
    bucket = topics["s3"].get("bucket")
    known = topics.get("objectscale", {}).get("quota_bytes", {})
    if bucket is None or bucket["name"] not in known:
        return topics
    told = {**bucket, "quota_bytes": known[bucket["name"]]}
    return {**topics, "s3": {**topics["s3"], "bucket": told}}


def _asked(topic: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was answered; a refusal that the client turned into a sentence is the topic's error."""
    try:
        return ask()
    except (KvlabError, OSError) as error:
        return {"error": f"{topic} could not be asked: {error}"}
