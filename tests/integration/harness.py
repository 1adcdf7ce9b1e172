"""What the integration tests share: the lab's probes by one call each, and the verdict that a test demands.

No judgement is made here: probes collect, checks judge, `demand` turns what is not green into a failure.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvlab.checks import Finding, judge, not_passed
from kvlab.probes import Facts, access_log, run_probe, s3_bucket
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


@dataclass(frozen=True)
class Bench:
    """A lab that is up, and the hands to work on it."""

    lab: Lab
    s3: Any
    tell: Tell
    record: Callable[[str, object], None] = field(default=lambda _name, _value: None)

    @property
    def endpoint(self) -> str:
        return str(self.lab.data["endpoint"])

    @property
    def bucket(self) -> str:
        """The bucket for round trips: no profile's own."""
        return str(self.lab.data["test_bucket"])

    @property
    def log_path(self) -> Path:
        return Path(self.lab.data["access_log"])

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
        return env | ({"LD_LIBRARY_PATH": str(self.lab.data["lib_dir"])} if with_cuobject else {})

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
        args = json.loads((Path(self.lab.profiles[profile]["dir"]) / "lmcache.args").read_text())
        adapter = json.loads(args[args.index("--l2-adapter") + 1])
        return dict(adapter["backend_params"])

    def probe(self, name: str, job: Mapping[str, Any], *, with_cuobject: bool = True) -> Facts:
        """Run a probe in the serving venv."""
        env = self.serving_env(with_cuobject=with_cuobject)
        return run_probe(name, job, self.lab.data["serving_python"], env=env)

    def mark(self) -> access_log.Mark:
        return access_log.mark(self.log_path)

    def requests(self, since: access_log.Mark, bucket: str) -> list[Facts]:
        """What the object store logged for `bucket` since the mark."""
        return list(access_log.read(self.log_path, since, bucket)["requests"])

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
