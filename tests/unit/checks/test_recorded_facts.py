"""Each check on facts where it must pass, and on facts where it and only it must not (tests/fixtures/facts)."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab.checks import REGISTRY, judge
from kvlab.kvcache import lint

HERE = Path(__file__)
FIXTURES = HERE.parents[2] / "fixtures" / "facts"
RECORDED: dict[str, Any] = {
    file.stem: yaml.safe_load(file.read_text()) for file in sorted(FIXTURES.glob("*.yml"))
}
BAD = [(topic, check_id) for topic, one in RECORDED.items() for check_id in one["bad"]]


def merged(good: Any, change: Any) -> Any:
    """`good` with `change` laid over it; mappings are merged, all else is replaced."""
    if not (isinstance(good, dict) and isinstance(change, dict)):
        return copy.deepcopy(change)
    return {key: merged(good[key], change[key]) if key in good and key in change else
            copy.deepcopy(change[key] if key in change else good[key]) for key in {**good, **change}}  # fmt: skip


def bad_facts(topic: str, check_id: str) -> Any:
    recorded = RECORDED[topic]
    fault = recorded["bad"][check_id]
    facts = merged(recorded["good"], fault.get("change", {}))
    if "lint" in fault:
        reason = "as the linter says"
        facts["findings"] = [
            {"id": fault["lint"], "severity": "error", "key": "k", "reason": reason, "file": "lmcache.yaml"}
        ]
    return facts


@pytest.mark.parametrize("topic", RECORDED)
def test_every_check_of_a_topic_passes_on_its_good_facts(topic: str) -> None:
    recorded = RECORDED[topic]
    assert (recorded["topic"], bool(recorded["origin"])) == (topic, True)
    ids = [check_id for check_id, check in REGISTRY.items() if check.topic == topic]
    found = {f.id: (f.status, f.evidence) for f in judge({topic: recorded["good"]}, ids)}
    assert {check_id: one for check_id, one in found.items() if one[0] != "pass"} == {}
    assert all(evidence for _, evidence in found.values())


@pytest.mark.parametrize(("topic", "check_id"), BAD)
def test_a_fault_is_named_by_its_own_check_and_by_no_other(topic: str, check_id: str) -> None:
    fault = RECORDED[topic]["bad"][check_id]
    assert fault["origin"]
    ids = [other for other, check in REGISTRY.items() if check.topic == topic]
    found = {f.id: f for f in judge({topic: bad_facts(topic, check_id)}, ids)}
    assert found[check_id].status == fault.get("status", "fail")
    assert found[check_id].evidence
    assert found[check_id].remedy
    not_green = {other for other, finding in found.items() if finding.status != "pass"}
    assert not_green == {check_id, *fault.get("also", [])}


@pytest.mark.parametrize("check_id", ["LMC104", "LMC107", "LMC109"])
def test_a_rule_about_sizes_is_no_pass_where_the_model_is_not_known(check_id: str) -> None:
    facts = {**RECORDED["config"]["good"], "sizes_known": False}
    assert [found.status for found in judge({"config": facts}, [check_id])] == ["inconclusive"]


def test_no_check_is_without_good_and_bad_facts() -> None:
    here = {check_id for _, check_id in BAD}
    elsewhere = "".join(file.read_text() for file in HERE.parent.glob("test_*.py") if file != HERE)
    without = [
        check_id
        for check_id, check in REGISTRY.items()
        if not (check.topic in RECORDED and check_id in here) and f'"{check_id}"' not in elsewhere
    ]
    assert without == []


def test_no_recorded_fault_is_of_a_check_that_does_not_exist() -> None:
    assert [(topic, check_id) for topic, check_id in BAD if REGISTRY[check_id].topic != topic] == []


@pytest.mark.parametrize("topic", RECORDED)
def test_facts_that_lack_everything_are_inconclusive_never_a_pass(topic: str) -> None:
    ids = [check_id for check_id, check in REGISTRY.items() if check.topic == topic]
    for facts in ({}, {"nonsense": 1}, {"error": "the probe did not finish"}, None, 7):
        found = {f.status for f in judge({topic: facts}, ids)}
        assert found == {"inconclusive"}, facts


def _numbers(pattern: str) -> set[int]:
    found: set[int] = set()
    for check in REGISTRY.values():
        for first, last in re.findall(pattern, check.source):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_all_fifty_field_issues_and_fifteen_bench_facts_have_a_check() -> None:
    assert _numbers(r"rows? (\d+)(?: to (\d+))?") >= set(range(1, 51))
    facts = {
        int(number)
        for check in REGISTRY.values()
        for numbers in re.findall(r"facts? ((?:\d+(?:, | and )?)+)", check.source)
        for number in re.findall(r"\d+", numbers)
    }
    assert facts >= set(range(1, 16))


def test_an_id_of_the_linter_means_nothing_else_in_the_doctor() -> None:
    rules = (HERE.parents[3] / "docs" / "kv-lint.md").read_text()
    assert lint.__doc__
    named = set(re.findall(r"^\| ([A-Z]{3}\d{3}) \|", rules, re.MULTILINE))
    assert len(named) > 100
    assert named & set(REGISTRY) == set()


def test_each_rule_that_a_configuration_check_gathers_exists() -> None:
    rules = set(
        re.findall(r"^\| ([A-Z]{3}\d{3}) \|", (HERE.parents[3] / "docs" / "kv-lint.md").read_text(), re.M)
    )
    source = (HERE.parents[3] / "src" / "kvlab" / "checks" / "config.py").read_text()
    gathered = set(re.findall(r'"((?:LMC0|NIX|MPS|VLM|ENV|STK)\d{2,3})"', source))
    assert gathered
    assert gathered - rules == set()
