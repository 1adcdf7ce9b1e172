"""What the services and the store counted for a pass, and the facts in which the checks find their proof.

Evidence is taken before and after the requests of a pass, never during them. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from kvlab.errors import KvlabError
from kvlab.probes import Facts, lmcache_mp
from kvlab.serving import tier
from kvlab.serving.lab import Lab
from kvlab.ttft import nics

NO_LMCACHE: Facts = {
    "available": False,
    "error": "the profile has no LMCache server",
    "counters": {},
    "engines": 0,
}
IN_PROCESS: Facts = {
    "available": False,
    "inside": True,
    "error": "LMCache runs inside vLLM, where kvlab ttft reads vLLM's counts",
    "counters": {},
    "engines": 0,
}
NOTHING_MOVED: Facts = {"access_log": [], "file": None}


@dataclass(frozen=True)
class Reading:
    """What was counted up to one moment, and what lies in the tier then (`mark` None: the profile has no tier)."""

    lmcache: Facts
    vllm: Mapping[str, float]  # vLLM's metrics page, summed over labels
    mark: tier.Mark | None = None
    objects: Sequence[Facts] = ()
    nics: Mapping[str, int] | None = None  # where the store keeps no log

    @property
    def lookups(self) -> int:
        return int(self.lmcache["counters"].get("lookups") or 0)


@dataclass(frozen=True)
class Witness:
    """The eyes on the running profile of a lab: its vLLM, its LMCache server and its tier."""

    lab: Lab
    profile: str
    store: Any  # an S3 client, for the profiles that use a bucket

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.lab.profiles[self.profile]

    @property
    def vllm_url(self) -> str:
        return f"http://{self.lab.data['address']}:{self.lab.data['ports']['vllm']}"

    @property
    def logged(self) -> bool:
        """Whether the store keeps a log that can be read here, as the emulated one does; an array's cannot."""
        return bool(self.lab.data.get("access_log"))

    @property
    def tier(self) -> tier.Tier | None:
        """Where the chunks lie: a bucket or a folder; None for the baseline."""
        return None if self.facts["mode"] == "none" else tier.of(self.lab, self.profile, self.store)

    def read(self, lookups: int = 0, timeout_s: float = 15.0) -> Reading:
        """Everything counted so far, once nothing is being stored and `lookups` have been counted.

        After `timeout_s` what is counted then. Raises KvlabError when vLLM does not answer.
        """
        if self.tier is None:
            return Reading(NO_LMCACHE, self._vllm())
        lmcache = IN_PROCESS
        if self.facts["mode"] == "mp":
            url = f"http://{self.lab.data['address']}:{self.lab.data['ports']['lmcache_http']}"
            lmcache = lmcache_mp.settle(url, lookups=lookups, timeout_s=timeout_s)
        mark, moved = (self.tier.mark(), None) if self.logged else (None, nics.moved())
        return Reading(lmcache, self._vllm(), mark, self.tier.objects(), moved)

    def one_pass(self, kind: str, tokens: int, before: Reading, after: Reading) -> Facts:
        """A pass between two readings, as the KV checks want it, but for its `completion`."""
        known = {o["key"] for o in before.objects}
        moved = NOTHING_MOVED
        if self.tier is not None and before.mark is not None:
            moved = self.tier.since(before.mark)
        return {
            "kind": kind,
            "prompt_tokens": tokens,
            "lmcache_before": before.lmcache,
            "lmcache_after": after.lmcache,
            "new_objects": [o for o in after.objects if o["key"] not in known],
            "nics": nics.between(before.nics, after.nics),
            **moved,
        }

    def kv(self, passes: Sequence[Facts], expected_ids: Mapping[str, Sequence[int]]) -> dict[str, Facts]:
        """Facts for the KV checks; `expected_ids` holds the output that must come back, by prompt length."""
        return {
            "kv": {
                "simulated": self._simulated(passes),
                "profile": self.profile,
                "chunk_tokens": self.facts["chunk_size"],
                "chunk_bytes": self.facts["chunk_bytes"],
                "ranks": self.facts["tp"],
                "passes": list(passes),
                "baseline_ids": dict(expected_ids),
            }
        }

    def path(self, cold: Facts, hot: Facts | None, stored: Sequence[Facts]) -> dict[str, Facts]:
        """Facts for the PATH checks: the cold pass writes its new objects, the hot one reads each of them once.

        `stored` is what lies in the tier now.
        """
        keys = [o["key"] for o in cold["new_objects"]]
        passes = [cold] if hot is None else [cold, hot]
        transfers = list(self._transfers("write", keys))
        if hot is not None:
            transfers += self._transfers("read", keys)
        facts: Facts = {
            "simulated": self._simulated(passes),
            "lab_simulated": self.lab.simulated,
            "expected_path": self.facts["expected_path"],
            "transfers": transfers,
            "access_log": [r for one in passes for r in one["access_log"]],
        }
        if self.facts["file_path"]:
            counts = [one["file"] for one in passes]
            facts |= {"file": None if None in counts else _total(counts), "slots": list(stored)}
        return {"path": facts}

    def _transfers(self, op: str, keys: Iterable[str]) -> Iterable[Facts]:
        size = self.facts["chunk_bytes"]
        return ({"op": op, "key": key, "size": size, "state": "DONE"} for key in keys)

    def _simulated(self, passes: Sequence[Facts]) -> bool:
        """Facts are simulated if any piece of evidence is."""
        log = [r for one in passes for r in one["access_log"]]
        return any(r["simulated"] for r in log) if log else self.lab.simulated

    def _vllm(self) -> dict[str, float]:
        try:
            page = httpx.get(f"{self.vllm_url}/metrics", timeout=10, trust_env=False)
            page.raise_for_status()
        except httpx.HTTPError as error:
            raise KvlabError(
                f"vLLM at {self.vllm_url} gives no metrics ({error}); see its log under the lab's log folder."
            ) from error
        return lmcache_mp.parse(page.text)


def _total(counts: Sequence[Any]) -> Facts:
    """What LMCache's server moved in all the passes, from what it moved in each."""
    return {**counts[0], **{way: sum(one[way] for one in counts) for way in ("read", "written")}}
