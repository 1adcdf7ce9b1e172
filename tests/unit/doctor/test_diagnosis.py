"""A whole lab judged: every host asked, equal findings told once, nothing green by omission."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from doctor_lab import healthy

from kvlab.doctor import diagnosis, text, waivers
from kvlab.doctor.labfacts import LabFacts, Problem

TODAY = datetime.date(2026, 12, 2)


def changed(count: int, host: str, topic: str, **change: Any) -> LabFacts:
    facts = healthy(count)
    facts.hosts[host][topic].update(change)
    return facts


def diagnose(facts: LabFacts, *granted: waivers.Waiver, only: tuple[str, ...] = ()) -> diagnosis.Diagnosis:
    return diagnosis.diagnose(facts, diagnosis.select(only), granted, TODAY, asked_for=only)


def found(one: diagnosis.Diagnosis, status: diagnosis.GroupStatus) -> dict[str, tuple[str, ...]]:
    return {group.check.id: group.hosts for group in one.of(status)}


def test_a_healthy_lab_is_healthy_and_says_what_it_did_not_ask() -> None:
    one = diagnose(healthy())
    assert found(one, "fail") == {}
    assert found(one, "inconclusive") == {}
    assert one.exit_code == diagnosis.HEALTHY
    assert {check.topic for check in one.not_asked} >= {"bench", "mesh", "roundtrip"}
    assert "not asked" in text.render(one)


def test_the_same_fault_on_many_hosts_is_told_once_with_its_hosts() -> None:
    facts = healthy(6)
    for number in range(2, 7):
        facts.hosts[f"node{number}"]["kernel"]["newest_installed"] = "6.8.0-90-generic"
    one = diagnose(facts)
    assert found(one, "fail") == {"HOST050": tuple(f"node{number}" for number in range(2, 7))}
    assert one.exit_code == diagnosis.FINDINGS
    assert text.render(one).count("newest installed 6.8.0-90") == 1
    assert "node2, node3 … node6 (5 hosts)" in text.render(one)


def test_a_topic_that_applies_and_was_not_collected_is_inconclusive_and_no_health() -> None:
    facts = healthy()
    del facts.hosts["node2"]["rdma"]
    one = diagnose(facts, only=("RDMA010",))
    assert found(one, "pass") == {"RDMA010": ("node1",)}
    assert found(one, "inconclusive") == {"RDMA010": ("node2",)}
    assert one.exit_code == diagnosis.COULD_NOT_LOOK


def test_a_check_that_was_named_is_asked_even_where_its_facts_apply_nowhere() -> None:
    one = diagnose(healthy(), only=("KV020",))
    assert found(one, "inconclusive") == {"KV020": ("lab",)}
    assert one.exit_code == diagnosis.COULD_NOT_LOOK


def test_hosts_that_differ_are_named_although_each_alone_is_right() -> None:
    facts = changed(3, "node3", "processes")
    facts.hosts["node3"]["processes"]["processes"][0]["environment"]["PYTHONHASHSEED"] = "42"
    one = diagnose(facts, only=("LMC140", "LMC141"))
    assert found(one, "pass") == {"LMC140": ("node1", "node2", "node3")}
    (group,) = one.of("fail")
    assert group.check.id == "LMC141"
    assert "42 on node3" in group.evidence["lab"][0]


def test_a_host_that_does_not_answer_is_named_the_rest_is_judged_and_the_exit_is_2() -> None:
    facts = changed(2, "node1", "kernel", newest_installed="6.8.0-90-generic")
    facts = dataclasses.replace(facts, problems=(Problem("node3", "", "ssh: connect: timed out"),))
    one = diagnose(facts)
    assert found(one, "fail") == {"HOST050": ("node1",)}
    assert one.exit_code == diagnosis.COULD_NOT_LOOK
    assert "could not look at node3: ssh: connect: timed out" in text.render(one)
    assert "node3" in one.actions()[0]


def test_the_next_actions_are_three_and_begin_with_the_gravest_on_the_lowest_floor() -> None:
    facts = healthy()
    facts.hosts["node1"]["driver"].update(license="NVIDIA")
    facts.hosts["node1"]["kernel"].update(newest_installed="6.8.0-90-generic")
    facts.hosts["node1"]["lmcache"].update(healthy=False)
    facts.hosts["lab"]["s3"].update(error="the store refuses the key pair")
    actions = diagnose(facts).actions()
    assert len(actions) == diagnosis.ACTIONS
    assert actions[0].startswith("GPU011 on node1: ")
    assert not any(action.startswith("HOST050") for action in actions)


def waiver(**change: Any) -> waivers.Waiver:
    values = {"id": "HOST050", "host": "node*", "owner": "ops", "reason": "window on Sunday"}
    return waivers.Waiver(**{**values, "expiry": datetime.date(2026, 12, 6), **change})


def test_a_waived_finding_is_shown_as_waived_and_never_as_a_pass() -> None:
    one = diagnose(
        changed(2, "node1", "kernel", newest_installed="6.8.0-90-generic"), waiver(), only=("HOST050",)
    )
    assert found(one, "waived") == {"HOST050": ("node1",)}
    assert found(one, "pass") == {"HOST050": ("node2",)}
    assert one.exit_code == diagnosis.HEALTHY
    assert "waived by ops until 2026-12-06: window on Sunday" in text.render(one)


@pytest.mark.parametrize(
    "change",
    [{"expiry": datetime.date(2026, 12, 1)}, {"host": "node2"}, {"id": "HOST051"}],
    ids=["expired", "another host", "another check"],
)
def test_a_waiver_that_is_expired_or_speaks_of_something_else_counts_no_more(change: dict[str, Any]) -> None:
    facts = changed(2, "node1", "kernel", newest_installed="6.8.0-90-generic")
    one = diagnose(facts, waiver(**change), only=("HOST050",))
    assert found(one, "fail") == {"HOST050": ("node1",)}


def test_a_waiver_excuses_a_failure_and_not_that_nothing_could_be_seen() -> None:
    facts = healthy()
    facts.hosts["node1"]["kernel"].pop("headers")
    one = diagnose(facts, waiver(), only=("HOST050",))
    assert found(one, "inconclusive") == {"HOST050": ("node1",)}


def test_a_mistyped_id_is_refused() -> None:
    with pytest.raises(ValueError, match="HOTS"):
        diagnosis.select(("HOST", "HOTS"))


def test_stages_part_the_checks() -> None:
    parts = [
        {c.id for c in diagnosis.select((), stage)} for stage in ("preflight", "host", "path", "serving")
    ]
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(diagnosis.select())


def test_findings_of_a_stand_in_are_labelled_simulated() -> None:
    facts = changed(1, "node1", "lmcache", simulated=True, healthy=False)
    one = diagnose(facts, only=("LMC120",))
    assert one.groups[0].simulated is True
    assert "fail LMC120 critical [simulated]" in text.render(one)
