"""Collects the facts of a lab: host probes on every host at once, then what is asked from the controller.

Which topics a host must have facts about follows from what the lab says that it is: bare-host topics where kvlab
provisions the host (kvlab_provision), serving topics where a profile runs there.
"""

from __future__ import annotations

import concurrent.futures
import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvlab.doctor import configuration, external, hosts, store
from kvlab.doctor.labfacts import LAB, LabFacts, Problem
from kvlab.errors import KvlabError

if TYPE_CHECKING:
    from kvlab.serving.lab import Lab

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
    tell(f"reading {inventory}")
    members = hosts.of_inventory(inventory)
    if _is_the_local_lab(members):
        return _local(tell, round_trip=round_trip)
    if round_trip:
        raise KvlabError("--round-trip moves bytes in the local lab; leave it out with an inventory.")
    return _remote(inventory, members, tell)


def _is_the_local_lab(members: Sequence[hosts.Host]) -> bool:
    """Whether an inventory is that of the lab of this folder: it must be judged alike by either name."""
    from kvlab.serving import lab as labs

    found = labs.find()
    places = [host.get("kvlab_state_dir") for host in members if host.local]
    return found is not None and len(members) == 1 and places == [str(found.state_dir)]


def now() -> str:
    """This moment, as a facts file says it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _local(tell: Tell, *, round_trip: bool) -> LabFacts:
    from kvlab.serving import lab as labs
    from kvlab.serving import profiles

    found = labs.load()
    data = found.data
    if data.get("serving_mode") == external.MODE:
        return _local_external(found, tell)
    running = profiles.running(found) or found.configured_profile
    profile = found.profiles[running]
    tell(f"probing this machine (profile {running})")
    job = local_job(found, running)
    topics = job["topics"]
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


def local_job(found: Lab, running: str) -> dict[str, Any]:
    """What to collect on this machine for the profile that runs."""
    from kvlab.serving import processes

    data, profile = found.data, found.profiles[running]
    cached = profile["mode"] != "none"
    topics = [
        "files",
        "processes",
        "vllm",
        "venv",
        "profile",
        *(["lmcache", "lmcache_log"] if cached else []),
    ]
    return {
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


def _local_external(found: Lab, tell: Tell) -> LabFacts:
    names = {"vllm_url", "metrics_url", "lmcache_url"}
    given = {f"serving_{name}": found.data.get(name) for name in names}
    given["kvlab_active_profile"] = found.configured_profile
    job = external.job(lambda name, default: given.get(name, default))
    tell(f"asking {job['vllm_url']}")
    host = hosts.Host("localhost", {"ansible_connection": "local"})
    facts, _ = hosts.collect(host, job)
    facts = _labelled(facts | external.unseen(job), found.simulated)
    return LabFacts("local", found.simulated, now(), {host.name: facts}, {host.name: tuple(facts)})


def _remote(inventory: Path, members: Sequence[hosts.Host], tell: Tell) -> LabFacts:
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
            if host.get("kvlab_serving_mode") == external.MODE:
                facts = facts | external.unseen(jobs[host.name])
            else:
                facts = configuration.with_config(facts, str(host.get("kvlab_active_profile", "")))
            found[host.name] = _labelled(facts, bool(host.get("kvlab_simulated")))
            topics = [t for t in jobs[host.name]["topics"] if t not in ("profile", "packages")]
            applies[host.name] = (
                "clock",
                *topics,
                *(["config"] if "profile" in jobs[host.name]["topics"] else []),
            )
    order = [host.name for host in members if host.name in found]
    of_lab: dict[str, Any] = {}
    if asker := next((host for host in members if host.name in found and _has_bucket(host)), None):
        tell(f"asking the object store from {asker.name}")
        of_lab[LAB] = {"s3": _asked("s3", lambda: hosts.store(asker))}
        applies[LAB] = ("s3",)
    return LabFacts(
        inventory.name,
        any(host.get("kvlab_simulated") for host in members),
        now(),
        {**{name: found[name] for name in order}, **of_lab},
        {name: applies[name] for name in (*order, *of_lab)},
        tuple(sorted(problems, key=lambda problem: problem.host)),
    )


def _has_bucket(host: hosts.Host) -> bool:
    """Whether kvlab runs a profile there that keeps its chunks in a bucket."""
    managed = host.get("kvlab_serving_mode", "managed") == "managed" and host.get("serving_profiles_dir")
    return bool(managed) and host.get("kvlab_active_profile") not in (None, "baseline", "file")


def _job(host: hosts.Host) -> dict[str, Any]:
    """What to collect on a host of an inventory, by its own variables."""
    topics = [*(PROVISIONED if host.get("kvlab_provision") else ())]
    job: dict[str, Any] = {}
    firmware = configuration.firmware_job(str(host.get("inference_stack_name")))
    if host.get("kvlab_serving_mode") == external.MODE:
        job = external.job(host.get)
        return {**job, "firmware": firmware, "topics": [*topics, *job["topics"]]}
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
            "log_unit": f"kvlab-lmcache@{profile}.service",
            "cufile": f"{directory}/cufile.json",
            "path": "file" if profile == "file" else "object",
        }
        topics += ["lmcache_log"] if cached and host.get("serving_manager") == "systemd" else []
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
