"""What the integration tests share: the lab's probes by one call each, and the verdict that a test demands.

No judgement is made here: probes collect, checks judge, `demand` turns what is not green into a failure.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import labhosts
import pytest
from labhosts import Host

from kvlab.checks import Finding, judge, not_passed
from kvlab.errors import KvlabError
from kvlab.objectscale import s3
from kvlab.probes import Facts, access_log, s3_bucket
from kvlab.serving import health
from kvlab.serving.lab import Lab

Tell = Callable[[str], None]
RECORD_ENV = (
    "KVLAB_RECORD_FACTS"  # a folder: all judged facts are left there, to be judged again or made a fixture
)
_RECORDED = itertools.count()
ENGINE_PATHS = {"standard": "http", "dell": "rdma"}  # what each NIXL engine promises
PROFILE_OF_ENGINE = {"standard": "s3-http", "dell": "s3-rdma"}


def demand(findings: Iterable[Finding]) -> None:
    """Fail the test unless every finding is a pass: `inconclusive` is no more green than `fail`."""
    if bad := not_passed(findings):
        pytest.fail("\n".join(str(finding) for finding in bad), pytrace=False)


def witness(lab: Lab, gpu_host: Host, store_host: Host | None) -> tuple[str, Any]:
    """The store as this machine reaches it by plain S3, and its client: the witness beside NIXL.

    The endpoint of the GPU hosts may lie in a network of theirs; then the store host's own address stands for it.
    Raises KvlabError when neither serves the bucket for round trips.
    """
    endpoint, region = str(lab.data["endpoint"]), str(lab.data["region"])
    if gpu_host.local:
        return endpoint, s3_bucket.client(endpoint, region, lab.data["secrets_file"])
    places = [endpoint]
    if store_host:
        url = urlsplit(endpoint)
        address = store_host.variables("ansible_host")["ansible_host"] or store_host.name
        places.append(f"{url.scheme}://{address}:{url.port or (443 if url.scheme == 'https' else 80)}")
    secrets = labhosts.as_json(gpu_host.read(str(lab.data["secrets_file"])), "the secrets file")
    reasons = []
    for place in places:
        client = s3.client(place, secrets["access_key"], secrets["secret_key"], region)
        if reason := _refusal(client, place, str(lab.data["test_bucket"])):
            reasons.append(reason)
        else:
            return place, client
    raise KvlabError(
        f"this machine cannot use the object store: {'; '.join(reasons)}; open its S3 port to the machine that runs "
        "the tests."
    )


def _refusal(client: Any, endpoint: str, bucket: str) -> str | None:
    """Why the store at `endpoint` cannot be a witness; what answers there may be a proxy and no store at all."""
    from botocore.exceptions import BotoCoreError, ClientError

    if not health.answers(endpoint):
        return f"nothing answers at {endpoint}"
    try:
        client.list_objects_v2(Bucket=bucket, MaxKeys=1)
    except (BotoCoreError, ClientError) as error:
        return str(s3.explain(error, endpoint))
    return None


@dataclass(frozen=True)
class Log:
    """The emulated store's access log, where it lies; a real array has none (`path` is empty), and nothing is seen."""

    host: Host | None
    path: str

    def mark(self) -> access_log.Mark:
        if not self.path or self.host is None:
            return access_log.START
        if self.host.local:
            return access_log.mark(Path(self.path))
        inode, end = self._ask(only="mark")["mark"]
        return inode, end

    def since(self, mark: access_log.Mark, bucket: str | None = None) -> list[Facts]:
        """Requests after the mark, of one bucket or of all."""
        if not self.path or self.host is None:
            return []
        if self.host.local:
            return list(access_log.read(Path(self.path), mark, bucket)["requests"])
        return list(self._ask(mark=mark, bucket=bucket)["requests"])

    def _ask(self, **job: Any) -> Facts:
        assert self.host is not None
        return self.host.probe("access_log", {"access_log": self.path, **job}, "python3")


@dataclass(frozen=True)
class Bench:
    """A lab that is up, and the hands to work on it.

    `host` is the GPU host that is proved; `s3` and `witness_endpoint` are the store as this machine reaches it.
    """

    lab: Lab
    host: Host
    s3: Any
    witness_endpoint: str
    log: Log
    gpu_hosts: tuple[Host, ...]
    store_host: Host | None
    tell: Tell
    record: Callable[[str, object], None] = field(default=lambda _name, _value: None)

    @property
    def endpoint(self) -> str:
        return str(self.lab.data["endpoint"])

    @property
    def bucket(self) -> str:
        """The bucket for round trips: no profile's own."""
        return str(self.lab.data["test_bucket"])

    def recording(self, record: Callable[[str, object], None]) -> Bench:
        """The same bench, whose findings go to `record`."""
        return dataclasses.replace(self, record=record)

    def prove(self, facts: Mapping[str, Any], *ids: str) -> None:
        """Judge `facts` by the checks `ids`, leave the findings in the JUnit properties, demand a pass."""
        if folder := os.environ.get(RECORD_ENV):
            Path(folder, f"{next(_RECORDED):03d}-{'-'.join(ids)}.json").write_text(json.dumps(facts))
        findings = judge(facts, ids)
        for finding in findings:
            self.record(f"finding.{finding.id}", json.dumps(finding.as_json()))
        if self.lab.simulated:
            assert all(f.simulated for f in findings), "a result of a simulated lab is not labelled simulated"
        demand(findings)

    def serving_env(self, *, with_cuobject: bool = True) -> dict[str, str]:
        """Environment for the serving venv, with or without libcuobjclient.so.1 on the loader's path."""
        env = {"CUFILE_ENV_PATH_JSON": str(self.lab.data["cufile_json"]), "HF_HUB_OFFLINE": "1"}
        folder = str(self.lab.data["lib_dir"] or "")  # empty where the library is a package of the system
        return env | ({"LD_LIBRARY_PATH": folder} if with_cuobject and folder else {})

    def job(self, engine: str, **more: Any) -> dict[str, Any]:
        """A job for NIXL or LMCache with the parameters of the profile that uses this engine."""
        data = self.lab.data
        return {
            "engine": engine,
            "endpoint": self.endpoint,
            "region": data["region"],
            "bucket": self.bucket,
            "secrets_file": data["secrets_file"],
            "params": self.profile_params(PROFILE_OF_ENGINE[engine]),
            **more,
        }

    def profile_params(self, profile: str) -> dict[str, str]:
        """NIXL's parameters as the lab's profile gives them to LMCache."""
        args = json.loads(self.host.read(f"{self.lab.profiles[profile]['dir']}/lmcache.args"))
        adapter = json.loads(args[args.index("--l2-adapter") + 1])
        return dict(adapter["backend_params"])

    def probe(
        self,
        name: str,
        job: Mapping[str, Any],
        *,
        with_cuobject: bool = True,
        host: Host | None = None,
        timeout_s: float = 120,
    ) -> Facts:
        """Run a probe in the serving venv, on this host or on another one of the lab."""
        env = self.serving_env(with_cuobject=with_cuobject)
        python = str(self.lab.data["serving_python"])
        return (host or self.host).probe(name, job, python, env=env, timeout_s=timeout_s)

    def tools_probe(self, name: str, job: Mapping[str, Any], *, host: Host | None = None) -> Facts:
        """Run a probe that needs boto3 or httpx, in the venv that has them."""
        where = host or self.host
        python = sys.executable if where.local else labhosts.TOOLS_PYTHON
        return where.probe(name, job, python)

    def mark(self) -> access_log.Mark:
        return self.log.mark()

    def requests(self, since: access_log.Mark, bucket: str) -> list[Facts]:
        """What the object store logged for `bucket` since the mark."""
        return self.log.since(since, bucket)

    def path_facts(self, expected: str, transfers: list[Facts], requests: list[Facts]) -> dict[str, Facts]:
        """Facts for the PATH checks; they are simulated if any piece of evidence is."""
        return {
            "path": {
                "simulated": any(r["simulated"] for r in requests) if requests else self.lab.simulated,
                "lab_simulated": self.lab.simulated,
                "expected_path": expected,
                "transfers": transfers,
                "access_log": requests,
            }
        }

    def objects(self, bucket: str) -> list[dict[str, Any]]:
        return s3_bucket.objects(self.s3, bucket)
