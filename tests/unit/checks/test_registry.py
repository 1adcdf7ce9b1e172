"""The table of checks and the finding it makes."""

from __future__ import annotations

import json
import re

import pytest

from kvlab.checks import REGISTRY, Finding, judge, not_passed
from kvlab.checks.registry import EVIDENCE_LINES, Check, Verdict, check, verdict


def test_without_facts_no_check_passes() -> None:
    findings = judge({})
    assert {f.status for f in findings} == {"inconclusive"}
    assert not_passed(findings) == findings


def test_every_check_has_id_title_remedy_and_source() -> None:
    for check_id, one in REGISTRY.items():
        assert re.fullmatch(r"(?:[A-Z]+|S3)\d{3}", check_id), check_id
        assert one.title
        assert one.remedy.endswith(".")
        assert one.source


def test_an_id_that_selects_no_check_is_refused() -> None:
    with pytest.raises(ValueError, match="PAHT"):
        judge({}, ["PATH", "PAHT"])


def test_an_id_can_be_registered_once() -> None:
    taken = next(iter(REGISTRY))
    with pytest.raises(ValueError, match=taken):
        check(taken, "", stage="path", severity="minor", topic="", remedy="", source="")(
            lambda _facts: verdict([], [], [])
        )


def test_a_failure_outweighs_the_unknown_and_nothing_seen_is_unknown() -> None:
    assert verdict(["bad"], ["unclear"], ["good"]) == Verdict("fail", ("bad", "unclear"))
    assert verdict([], ["unclear"], ["good"]).status == "inconclusive"
    assert verdict([], [], []).status == "inconclusive"
    assert verdict([], [], ["good"]).status == "pass"


def run(status: str, lines: int, simulated: bool | None) -> Finding:
    one = Check(
        "XX001",
        "Title",
        "path",
        "minor",
        "topic",
        "Do this.",
        "source",
        lambda _facts: Verdict(status, tuple(f"line {n}" for n in range(lines))),  # type: ignore[arg-type]
    )
    return one.run({"topic": {"simulated": simulated}})


def test_a_finding_carries_its_simulated_label_into_text_and_json() -> None:
    finding = run("fail", 1, simulated=True)
    assert "XX001 fail [simulated]" in str(finding)
    assert json.loads(json.dumps(finding.as_json()))["simulated"] is True
    assert "[simulated]" not in str(run("fail", 1, simulated=False))


def test_only_a_finding_that_did_not_pass_has_a_remedy() -> None:
    assert run("pass", 1, None).remedy == ""
    assert run("fail", 1, None).remedy == "Do this."
    assert run("inconclusive", 1, None).remedy == "Do this."


def test_long_evidence_is_cut_and_the_rest_counted() -> None:
    evidence = run("fail", EVIDENCE_LINES + 5, None).evidence
    assert len(evidence) == EVIDENCE_LINES
    assert evidence[-1] == "and 6 more"
