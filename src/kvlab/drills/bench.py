"""The lab that is drilled, and the hands to look at it: the doctor's probes, one call each.

Whatever a bench has started or swapped is put back when it is closed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from kvlab.checks import Finding
from kvlab.doctor import collect, configuration, store
from kvlab.doctor.labfacts import LAB, LabFacts
from kvlab.drills import faults, programs
from kvlab.errors import KvlabError
from kvlab.objectscale.smoke import PREFIX
from kvlab.probes import Facts, access_log, run_probe, s3_bucket
from kvlab.probes import host as host_probes
from kvlab.serving.lab import Lab

Tell = Callable[[str], None]
T = TypeVar("T")
PROFILE_OF_ENGINE = {"standard": "s3-http", "dell": "s3-rdma"}
PROBE_S = 120.0


class Bench:
    """One lab for the length of a session of drills; a context manager."""

    def __init__(self, lab: Lab, tell: Tell) -> None:
        self.lab, self.tell = lab, tell
        self.profile = programs.require_up(lab)
        self.left_healthy: dict[str, Mapping[str, Finding]] = {}
        self._store = contextlib.ExitStack()
        self._session = contextlib.ExitStack()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._session.close()
        finally:
            self._store.close()

    @property
    def data(self) -> Mapping[str, Any]:
        return self.lab.data

    @property
    def simulated(self) -> bool:
        return self.lab.simulated

    @property
    def bucket(self) -> str:
        """The bucket for tests, which no profile uses."""
        return str(self.data["test_bucket"])

    @property
    def about(self) -> Mapping[str, Any]:
        """The running profile."""
        return self.lab.profiles[self.profile]

    @functools.cached_property
    def s3(self) -> Any:
        return s3_bucket.client(self.data["endpoint"], self.data["region"], self.data["secrets_file"])

    @functools.cached_property
    def healthy(self) -> LabFacts:
        """The whole lab as the doctor collects it, once for all drills that change facts."""
        self.tell("collecting the facts of the healthy lab, once")
        return collect.lab(None, self.tell)

    def host_facts(self, topic: str) -> dict[str, Any]:
        """A topic of the healthy lab, free to be changed."""
        hosts = self.healthy.hosts
        found = next((topics[topic] for topics in hosts.values() if topic in topics), None)
        if found is None:
            raise KvlabError(f"the healthy lab has no facts about {topic!r}; start a profile with a cache.")
        copied: dict[str, Any] = json.loads(json.dumps(found))
        return copied

    def look(self, *topics: str, **job: Any) -> dict[str, Any]:
        """Topics of this machine as they are now, by the doctor's host probes."""
        wanted = collect.local_job(self.lab, self.profile)
        found: dict[str, Any] = host_probes.run({**wanted, **job, "topics": list(topics)})["facts"]
        found = configuration.with_config(found, self.profile)
        return {topic: {**facts, "simulated": self.simulated} for topic, facts in found.items()}

    def look_at_store(self, **profile: Any) -> dict[str, Any]:
        """Topic `s3`, of the running profile with some of its values replaced."""
        facts = store.object_store(self.data, {**self.about, **profile}, simulated=self.simulated)
        known = self.healthy.hosts.get(LAB, {}).get("s3", {}).get("bucket", {})
        if "bucket" in facts and "quota_bytes" in known:
            facts["bucket"]["quota_bytes"] = known["quota_bytes"]
        return {"s3": facts}

    def look_at_management(self) -> dict[str, Any]:
        """Topic `objectscale`."""
        names = [str(p["bucket"]) for p in self.lab.profiles.values() if p.get("bucket")]
        return {"objectscale": store.management(self.data, self.about, names, simulated=self.simulated)}

    def job(self, engine: str, **more: Any) -> dict[str, Any]:
        """A job for NIXL or LMCache, with the parameters of the profile that uses this engine."""
        folder = Path(self.lab.profiles[PROFILE_OF_ENGINE[engine]]["dir"])
        args = json.loads((folder / "lmcache.args").read_text())
        params = json.loads(args[args.index("--l2-adapter") + 1])["backend_params"]
        data = self.data
        return {
            "engine": engine,
            "endpoint": data["endpoint"],
            "region": data["region"],
            "bucket": self.bucket,
            "secrets_file": data["secrets_file"],
            "params": params,
            **more,
        }

    def serving_probe(self, name: str, job: Mapping[str, Any], **env: str | None) -> Facts:
        """A probe in the serving environment; a variable of `env` that is None is left out of it."""
        wanted = {
            "LD_LIBRARY_PATH": str(self.data["lib_dir"]),
            "CUFILE_ENV_PATH_JSON": str(self.data["cufile_json"]),
            "HF_HUB_OFFLINE": "1",
            **env,
        }
        kept = {name: value for name, value in wanted.items() if value is not None}
        return run_probe(name, job, self.data["serving_python"], env=kept, timeout_s=PROBE_S)

    @contextlib.contextmanager
    def keys(self) -> Iterator[str]:
        """A key prefix of the drill's own in the test bucket; what lies under it is deleted at the end."""
        prefix = f"{PREFIX}drill-{secrets.token_hex(6)}/"
        try:
            yield prefix
        finally:
            for one in self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", []):
                self.s3.delete_object(Bucket=self.bucket, Key=one["Key"])

    @contextlib.contextmanager
    def log(self, bucket: str) -> Iterator[list[Facts]]:
        """The store's log of a bucket: the list is filled when the block ends."""
        path, requests = Path(self.data["access_log"]), []  # type: Path, list[Facts]
        mark = access_log.mark(path)
        yield requests
        requests += access_log.read(path, mark, bucket)["requests"]

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """The lab's store misbehaves meanwhile (`kvlab emulator fault kinds`)."""
        return faults.armed(self._fault_port, kind, **fields)

    @functools.cached_property
    def _fault_port(self) -> int:
        """The fault interface of the lab's store, which is started again with one until the bench is closed."""
        port = free_port()
        self.tell("the lab's object store is restarted with its fault interface")
        self._store.enter_context(programs.store_with(self.lab, ["--admin-port", str(port)]))
        return port

    def keep(self, held: AbstractContextManager[T]) -> T:
        """Enter `held` until the bench is closed."""
        return self._session.enter_context(held)

    def without_fault_port(self) -> None:
        """Put the lab's own store back, for drills that stop or replace it."""
        self._store.close()
        self.__dict__.pop("_fault_port", None)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
