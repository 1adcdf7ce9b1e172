"""Cold and hot passes against the running profile, with what LMCache and the store counted for each."""

from __future__ import annotations

import hashlib
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from harness import Bench
from labhosts import TOOLS_KVLAB

from kvlab.errors import KvlabError
from kvlab.probes import Facts, completion, lmcache_mp
from kvlab.serving import profiles, tier

LENGTHS = (2048, 4096)
HOT_PASSES = {2048: 3, 4096: 5}  # the ratio is judged at 4,096, by a median
MAX_TOKENS = 16
SILENCE_S = 300  # a cold pass takes 3 s on an idle machine, and a hundred times that on a crowded one
SAMPLE = 3  # every third of the new objects is read by another reader
SEED = 20261201  # the same prompts in every run: an output is then comparable between runs, too


def prompt(tokens: int, seed: int = SEED) -> list[int]:
    """`tokens` ids of printable bytes; prompts of different lengths share no first chunk."""
    return random.Random(f"{seed} {tokens}").choices(range(32, 127), k=tokens)


def look_of(body: bytes) -> Facts:
    """What tells a chunk from another, from zeros and from itself when it changed."""
    return {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "values": len(set(body))}


@dataclass(frozen=True)
class Reuse:
    """A prompt of which `shared` tokens, from its first on, are those of a stored prompt."""

    ids: list[int]
    shared: int


REUSES = {
    "ends inside a stored prompt": Reuse(prompt(LENGTHS[0])[:1400], 1400),
    "leaves a stored prompt between two chunks": Reuse(prompt(LENGTHS[0])[:1024] + prompt(768), 1024),
    "leaves a stored prompt inside a chunk": Reuse(prompt(LENGTHS[0])[:900] + prompt(800), 900),
}
"""None of them is of a length in LENGTHS, so that outputs can go by length."""


def total(counts: Sequence[Any]) -> Facts:
    """What LMCache's server moved in all the passes, from what it moved in each."""
    return counts[0] | {way: sum(one[way] for one in counts) for way in ("read", "written")}


class Runner(Protocol):
    """What switches the profiles of a host."""

    def running(self) -> str | None:
        """The profile that runs."""

    def use(self, name: str, *, restart: bool = True) -> None:
        """Make `name` the one that runs, and wait until it serves."""


@dataclass(frozen=True)
class Here:
    """Profiles of this machine."""

    bench: Bench

    def running(self) -> str | None:
        return profiles.running(self.bench.lab)

    def use(self, name: str, *, restart: bool = True) -> None:
        profiles.use(self.bench.lab, name, restart=restart, progress=self.bench.tell)


@dataclass(frozen=True)
class There:
    """Profiles of another host, by the command that its operators use."""

    bench: Bench

    def running(self) -> str | None:
        lines = self._kvlab("profile", "list").splitlines()
        return next((line.split()[1] for line in lines if line.startswith("*")), None)

    def use(self, name: str, *, restart: bool = True) -> None:
        self._kvlab("profile", "use", name, *(() if restart else ("--no-restart",)))

    def _kvlab(self, *words: str) -> str:
        settings = f"KVLAB_LAB_FILE={shlex.quote(str(self.bench.lab.file))}"
        return self.bench.host.output(f"{settings} {TOOLS_KVLAB} {shlex.join(words)}")


def runner_of(bench: Bench) -> Runner:
    """The runner of the host's profiles."""
    return Here(bench) if bench.host.local else There(bench)


class BucketThere(tier.Bucket):
    """A profile's bucket, whose store keeps its log on another host."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__(bench.lab, name, bench.s3)
        object.__setattr__(self, "bench", bench)

    def mark(self) -> tier.Mark:
        return tier.Mark(self.bench.log.mark())  # type: ignore[attr-defined]

    def since(self, mark: tier.Mark) -> Facts:
        return {"access_log": self.bench.log.since(mark.log, self.name), "file": None}  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Server:
    """The running profile's vLLM and, where it has one, LMCache server."""

    bench: Bench
    profile: str

    @property
    def facts(self) -> Any:
        return self.bench.lab.profiles[self.profile]

    @property
    def tier(self) -> tier.Tier:
        """Where its chunks lie: a bucket or a folder."""
        if self.bench.host.local:
            return tier.of(self.bench.lab, self.profile, self.bench.s3)
        if self.facts["file_path"]:
            pytest.skip("a folder of files is counted by its own kernel: run this on the GPU host itself")
        return BucketThere(self.bench, str(self.facts["bucket"]))

    @property
    def lmcache_url(self) -> str:
        data = self.bench.lab.data
        return f"http://{data['address']}:{data['ports']['lmcache_http']}"

    def ask(self, ids: Sequence[int]) -> Facts:
        """One streamed completion at temperature 0."""
        data = self.bench.lab.data
        url = f"http://{data['address']}:{data['ports']['vllm']}"
        job = {"url": url, "prompt_ids": list(ids), "max_tokens": MAX_TOKENS}
        job |= {"timeout_s": SILENCE_S, "simulated": self.bench.lab.simulated}
        return completion.run(job) if self.bench.host.local else self.bench.tools_probe("completion", job)

    def settle(self, lookups: int = 0) -> Facts:
        """LMCache's counts once they rest."""
        if self.bench.host.local:
            return lmcache_mp.settle(self.lmcache_url, lookups=lookups)
        return self.bench.tools_probe("lmcache_mp", {"url": self.lmcache_url, "settle": {"lookups": lookups}})

    def one_pass(self, kind: str, ids: Sequence[int]) -> Facts:
        """A request, and what LMCache and the store counted for it."""
        before = self.settle()
        mark = self.tier.mark()
        known = {o["key"] for o in self.tier.objects()}
        answer = self.ask(ids)
        counted = (before["counters"].get("lookups") or 0) + 1
        after = self.settle(counted)
        return {
            "kind": kind,
            "prompt_tokens": len(ids),
            "completion": answer,
            "lmcache_before": before,
            "lmcache_after": after,
            "new_objects": [o for o in self.tier.objects() if o["key"] not in known],
            **self.tier.since(mark),
        }

    def passes(self) -> list[Facts]:
        """For each length a cold pass, then hot ones of the same prompt."""
        done = []
        for tokens in LENGTHS:
            for number in range(1 + HOT_PASSES[tokens]):
                one = self.one_pass("hot" if number else "cold", prompt(tokens))
                one["content"] = {o["key"]: self.look_at(o["key"]) for o in one["new_objects"][::SAMPLE]}
                done.append(one)
                ttft = one["completion"]["ttft_ms"]
                self.bench.tell(f"{self.profile}: {tokens} tokens, {one['kind']}: TTFT {ttft or 0:.0f} ms")
        return done

    def look_at(self, key: str) -> Facts:
        """A stored object as a reader without LMCache and NIXL gets it: over HTTP, or from the disk."""
        return look_of(self.tier.body(key))

    def content(self, passes: list[Facts]) -> dict[str, Facts]:
        """Facts for KV011: a sample of what the passes stored, as it was then and as it is now."""
        then = {key: look for one in passes for key, look in one["content"].items()}
        objects = [
            {"key": k, "after_store": look, "after_loads": self.look_at(k)} for k, look in then.items()
        ]
        simulated = self.kv(passes, {})["kv"]["simulated"]
        return {
            "kv_content": {
                "simulated": simulated,
                "chunk_bytes": self.facts["chunk_bytes"],
                "objects": objects,
            }
        }

    def kv(self, passes: list[Facts], baseline: dict[str, list[int]]) -> dict[str, Facts]:
        """Facts for the KV checks about the passes."""
        log = [r for one in passes for r in one["access_log"]]
        return {
            "kv": {
                "simulated": any(r["simulated"] for r in log) if log else self.bench.lab.simulated,
                "profile": self.profile,
                "chunk_tokens": self.facts["chunk_size"],
                "chunk_bytes": self.facts["chunk_bytes"],
                "ranks": self.facts["tp"],
                "passes": passes,
                "baseline_ids": baseline,
            }
        }

    def path(self, passes: list[Facts]) -> dict[str, Facts]:
        """Facts for the PATH checks: a cold pass writes each of its chunks, a hot pass reads each, once."""
        size = self.facts["chunk_bytes"]
        transfers = [
            {"op": "write", "key": o["key"], "size": size, "state": "DONE"}
            for one in passes
            for o in one["new_objects"]
        ]
        stored: dict[int, list[str]] = {}
        for one in passes:
            stored.setdefault(one["prompt_tokens"], []).extend(o["key"] for o in one["new_objects"])
            if one["kind"] == "hot":
                keys = stored[one["prompt_tokens"]]
                transfers += [{"op": "read", "key": k, "size": size, "state": "DONE"} for k in keys]
        log = [r for one in passes for r in one["access_log"]]
        facts = self.bench.path_facts(self.facts["expected_path"], transfers, log)
        if self.profile == "file":
            counts = [one["file"] for one in passes]
            facts["path"] |= {"file": None if None in counts else total(counts), "slots": self.tier.objects()}
        return facts


def start(bench: Bench, profile: str) -> Server:
    """Start a profile afresh: its LMCache server begins with an empty bucket or folder."""
    bench.tell(f"profile {profile}: starting (vLLM takes about 40 s)")
    if profile not in bench.lab.profiles:
        pytest.skip(f"the lab of {bench.host.name} has no profile {profile}")
    try:
        runner_of(bench).use(profile)
    except KvlabError as error:
        pytest.fail(str(error), pytrace=False)
    server = Server(bench, profile)
    server.ask(prompt(64))  # the first request of an engine pays for its warm-up, and stores no chunk
    return server
