"""A lab that is up as the place of a TTFT run: starts profiles, sends prompts, collects evidence."""

from __future__ import annotations

import contextlib
import json
import subprocess
import xmlrpc.client
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.checks import judge
from kvlab.errors import KvlabError
from kvlab.objectscale import s3
from kvlab.probes import Facts
from kvlab.serving import cpu, profiles
from kvlab.serving.lab import Lab
from kvlab.ttft import counters, nics, proof
from kvlab.ttft.client import Client
from kvlab.ttft.evidence import Reading, Witness
from kvlab.ttft.plan import Plan
from kvlab.ttft.proof import Group
from kvlab.ttft.result import NIC_GB_S, Scalar, Series

TEST_MODEL = "kvlab-test"


@dataclass(frozen=True)
class LabSite:
    """Starts a lab's profiles for a plan; `store` is an S3 client for the buckets."""

    lab: Lab
    plan: Plan
    store: Any
    tell: Callable[[str], None]

    def start(self, profile: str) -> LabServing:
        """Start its services with an empty tier, and wait until they serve."""
        profiles.use(self.lab, profile, progress=self.tell)
        return LabServing(self.lab, self.plan, Witness(self.lab, profile, self.store))


@dataclass
class LabServing:
    """A profile that was just started. What was counted after a pass is what was counted before the next."""

    lab: Lab
    plan: Plan
    witness: Witness
    counted: Reading | None = None

    def about(self) -> dict[str, Scalar]:
        stack = self.witness.facts["stack"]
        pids = cpu.process_ids(self.lab, self.witness.profile)
        return {**{name: str(stack[name]) for name in stack}, "processes": len(pids)}

    def ask(self, ids: Sequence[int]) -> Facts:
        self.counted = None
        return self._client().ask([ids])[0]

    def measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        with explained(self.lab):
            return self._measure(series, context, prompts)

    def _measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        witness = self.witness
        before = self.counted or witness.read()
        self.counted = None  # should this pass not come to its end
        pids = cpu.process_ids(self.lab, witness.profile)
        began = cpu.seconds(pids)
        answers = self._client().ask(prompts)
        ended = cpu.seconds(pids)
        after = witness.read(
            before.lookups + len(prompts),
            self.plan.store_s if series == "cold" else min(15.0, self.plan.store_s),
        )
        # The baseline has nothing to wait for, so its counts may come a moment later: they are read anew.
        self.counted = after if witness.tier else None
        moved = {name: value - before.vllm.get(name, 0.0) for name, value in after.vllm.items()}
        return Group(
            profile=witness.profile,
            series=series,
            context=context,
            answers=answers,
            facts=witness.one_pass(series, context, before, after),
            cpu_s=None if began is None or ended is None else ended - began,
            chunk_tokens=int(witness.facts["chunk_size"]),
            chunk_bytes=int(witness.facts["chunk_bytes"]) * int(witness.facts["tp"]),
            vllm=moved,
        )

    def doubts(self, group: Group, cold: Group | None) -> list[str]:
        """By the checks of topics kv and path, where a cache takes part; else by what must not have moved."""
        witness = self.witness
        if witness.tier is None or group.chunks == 0:
            return proof.uncached(group, cold)
        with explained(self.lab):
            stored = witness.tier.objects()
        first = (cold or group).as_kv()
        passes = [first] if cold is None else [first, group.as_kv()]
        expected = {str(first["prompt_tokens"]): (cold or group).output_ids()}
        facts = witness.kv(passes, expected) | witness.path(
            first, None if cold is None else passes[1], stored
        )
        if not witness.logged:
            own = [check for check in counters.CHECKS if check != ("KV005" if cold is None else "KV003")]
            return [
                *proof.unanswered(group),
                *proof.miscounted(group),
                *proof.reasons_of(judge(facts, own)),
                *counters.doubts(group, str(witness.facts["expected_path"])),
            ]
        asked = proof.COLD_CHECKS if cold is None else proof.HOT_CHECKS
        return proof.unanswered(group) + proof.miscounted(group) + proof.reasons_of(judge(facts, asked))

    def _client(self) -> Client:
        return Client(self.witness.vllm_url, self.plan.max_tokens, self.plan.silence_s)


@contextlib.contextmanager
def explained(lab: Lab) -> Iterator[None]:
    """What the store or the supervisor no longer answers inside becomes one sentence (KvlabError)."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise s3.explain(error, str(lab.data["endpoint"])) from error
    except (OSError, xmlrpc.client.Error) as error:
        raise KvlabError(f"the lab went away during a pass ({error}); run ./lab up.") from error


def check_fits(lab: Lab, plan: Plan) -> None:
    """KvlabError when the lab serves another model than the plan's, a shorter one, or with other parallelism."""
    model = lab.data["model"]
    folder = Path(model["dir"])
    names = {str(folder), folder.name, *_served(lab)}
    names |= {name.rsplit("/", 1)[-1] for name in names}
    if (folder / "kvlab-model.json").exists():
        names.add(TEST_MODEL)
    if plan.model not in names:
        raise KvlabError(
            f"the plan {plan.name} is for the model {plan.model}, and this lab serves {sorted(_served(lab))[0]}; bring "
            "the lab up with that model (kvlab_model_dir), or take another plan."
        )
    longest = int(model["max_model_len"])
    if plan.tokens() > longest:
        raise KvlabError(
            f"the plan {plan.name} needs {plan.tokens()} tokens and this lab's model has {longest}; shorten the "
            "contexts, or bring the lab up with a greater kvlab_max_model_len."
        )
    degrees = {int(facts["tp"]) for facts in lab.profiles.values()}
    if plan.tp is not None and degrees != {plan.tp}:
        raise KvlabError(
            f"the plan {plan.name} is for tensor parallelism {plan.tp}, and this lab has "
            f"{', '.join(map(str, sorted(degrees)))}."
        )


def environment(lab: Lab, plan: Plan) -> dict[str, Scalar]:
    """What two runs must share to be compared, and, under `about.`, what only describes this one."""
    import os
    import platform

    import psutil

    found: dict[str, Scalar] = {
        "hardware.cpu": _cpu_name(),
        "hardware.cores": psutil.cpu_count(logical=True),
        "hardware.memory_gib": round(psutil.virtual_memory().total / (1 << 30)),
        **_gpu(),
        **({NIC_GB_S: carried} if (carried := nics.rate()) else {}),
        "software.kernel": platform.release(),
        "lab.stack": str(lab.data["stack"]),
        "lab.simulated": lab.simulated,
        "workload.model": plan.model,
        "workload.model_digest": _model_digest(Path(lab.data["model"]["dir"])),
        "workload.max_tokens": plan.max_tokens,
        "about.load": round(os.getloadavg()[0], 2),
    }
    for name, facts in sorted(lab.profiles.items()):
        if name in (*plan.profiles, *plan.where_configured):
            found |= {f"versions.{part}": str(version) for part, version in facts["stack"].items()}
            found |= {
                f"profile.{name}.{key}": facts[key]
                for key in ("engine", "device", "chunk_size", "tp", "kv_dtype")
            }
    return found


def _served(lab: Lab) -> set[str]:
    return {str(facts["served_model_name"]) for facts in lab.profiles.values()}


def _gpu() -> dict[str, Scalar]:
    """The GPUs of this machine and their driver, as nvidia-smi names them; "none" without one."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    rows = (
        [line.rpartition(", ") for line in done.stdout.splitlines()] if done and not done.returncode else []
    )
    names = sorted({f"{[r[0] for r in rows].count(row[0])} x {row[0]}" for row in rows if row[0]})
    drivers = sorted({row[2] for row in rows if row[0]})
    return {"hardware.gpu": ", ".join(names) or "none", "driver.nvidia": ", ".join(drivers) or "none"}


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def _model_digest(folder: Path) -> str:
    """SHA-256 of the configuration and of the size of each weight file: what decides the time, not the values."""
    import hashlib

    digest = hashlib.sha256()
    try:
        digest.update(json.dumps(json.loads((folder / "config.json").read_text()), sort_keys=True).encode())
        for file in sorted(folder.glob("*.safetensors")):
            digest.update(f"{file.name} {file.stat().st_size}".encode())
    except (OSError, ValueError) as error:
        raise KvlabError(f"the model in {folder} cannot be read ({error}); run ./lab up again.") from None
    return digest.hexdigest()[:16]
