"""A lab whose vLLM is managed elsewhere: its addresses are judged, and what only its host shows is never green."""

from __future__ import annotations

from typing import Any

import pytest
from doctor_lab import good

from kvlab.doctor import collect, diagnosis, external
from kvlab.doctor.hosts import Host
from kvlab.doctor.labfacts import LabFacts

GIVEN = {
    "kvlab_serving_mode": "external",
    "kvlab_active_profile": "s3-rdma",
    "serving_vllm_url": "http://vllm.example.org:8000/",
    "serving_profiles_dir": "/etc/kvlab/profiles",
}


def test_its_addresses_are_asked_and_nothing_of_a_host() -> None:
    job = collect._job(Host("node1", GIVEN | {"serving_lmcache_url": "http://lmcache.example.org:8080"}))
    assert job["topics"] == ["vllm", "lmcache"]
    assert job["vllm_url"] == "http://vllm.example.org:8000"
    assert job["vllm_metrics_url"] == "http://vllm.example.org:8000/metrics"
    assert job["lmcache_url"] == "http://lmcache.example.org:8080"
    assert job["connector"] is True
    own = collect._job(Host("node1", GIVEN | {"serving_metrics_url": "http://metrics.example.org/vllm"}))
    assert own["topics"] == ["vllm"]
    assert own["vllm_metrics_url"] == "http://metrics.example.org/vllm"


@pytest.mark.parametrize("profile", ["s3-rdma", "baseline"])
def test_what_cannot_be_proven_is_inconclusive_with_the_reason(profile: str) -> None:
    given: dict[str, Any] = GIVEN | {"kvlab_active_profile": profile}
    facts = {"vllm": good("vllm"), **external.unseen(external.job(given.get))}
    lab = LabFacts("site", False, "2026-12-03T08:00:00+00:00", {"node1": facts}, {"node1": tuple(facts)})
    found = diagnosis.diagnose(lab, diagnosis.select((), None), ())
    by_topic: dict[str, set[str]] = {}
    for group in found.groups:
        by_topic.setdefault(group.check.topic, set()).add(group.status)
        if group.check.topic != "vllm":
            assert "managed elsewhere" in str(group.evidence)
    assert by_topic.pop("vllm") == {"pass"}
    asked = {"processes", "venv", "files", "config"} | (
        set() if profile == "baseline" else {"lmcache", "lmcache_log"}
    )
    assert set(by_topic) == asked
    assert all(statuses == {"inconclusive"} for statuses in by_topic.values())
    assert found.exit_code != 0
