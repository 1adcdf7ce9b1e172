"""kvlab doctor, facts and drift on recorded facts, as a user calls them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from doctor_lab import document

from kvlab.cli import doctor, drift, facts
from kvlab.errors import KvlabError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(content: Any, name: str = "facts.json") -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    Path(name).write_text(text)
    return name


def run(command: Any, *arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, KvlabError):
        raise result.exception
    return result


def test_recorded_facts_are_judged_with_exit_1_for_a_finding() -> None:
    content = document()
    content["hosts"]["node1"]["rdma"]["lldpad"] = True
    result = run(doctor.command, "--facts", write(content), "--stage", "host")
    assert result.exit_code == 1, result.output
    assert "fail RDMA014 major" in result.output
    assert "Next:\n  1. RDMA014 on node1: Stop and mask lldpad" in result.output


def test_healthy_facts_end_with_exit_0() -> None:
    result = run(doctor.command, "--facts", write(document()))
    assert result.exit_code == 0, result.output
    assert "0 fail, 0 inconclusive" in result.output


def test_json_holds_findings_problems_and_actions() -> None:
    content = document()
    content["hosts"]["node1"]["rdma"]["lldpad"] = True
    content["problems"] = [{"host": "node9", "topic": "", "reason": "no route to host"}]
    result = run(doctor.command, "--facts", write(content), "--only", "RDMA014", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == told["exit_code"] == 2
    assert [(f["id"], f["status"], f["hosts"]) for f in told["findings"]] == [
        ("RDMA014", "fail", ["node1"]),
        ("RDMA014", "pass", ["node2"]),
    ]
    assert told["problems"] == ["node9: no route to host"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"kind": "kvlab-facts", "schema": 1, "hosts": {"node1": {"ker', "truncated"),
        ({**document(), "schema": 7}, "schema is 7"),
        ({"findings": []}, "no facts file"),
        ({**document(), "hosts": {}}, "no host's facts"),
        ("[" * 100_000, "truncated or no JSON"),
    ],
    ids=["truncated", "another schema", "another document", "no hosts", "nested"],
)
def test_a_file_that_cannot_be_judged_is_named_and_the_exit_is_2(content: Any, says: str) -> None:
    result = run(doctor.command, "--facts", write(content))
    assert result.exit_code == 2
    assert says in result.output


def test_a_host_of_another_shape_or_schema_is_named_and_the_rest_is_judged() -> None:
    content = document(3)
    content["hosts"]["node1"] = ["not", "topics"]
    content["hosts"]["node2"]["kernel"]["schema"] = 99
    content["hosts"]["node3"]["kernel"]["newest_installed"] = "6.8.0-90-generic"
    result = run(doctor.command, "--facts", write(content), "--only", "HOST050")
    assert result.exit_code == 2
    assert "could not look at node1: its facts are no mapping of topics" in result.output
    assert "could not look at node2 (kernel): its probe wrote schema 99" in result.output
    assert "fail HOST050" in result.output


def test_a_missing_file_and_a_mistyped_id_are_one_sentence() -> None:
    with pytest.raises(KvlabError, match="nowhere.json cannot be read"):
        run(doctor.command, "--facts", "nowhere.json")
    with pytest.raises(KvlabError, match="HOTS.*--list"):
        run(doctor.command, "--facts", write(document()), "--only", "HOTS")


def test_list_names_every_check_with_what_is_promised() -> None:
    listed = json.loads(run(doctor.command, "--list", "--json").stdout)
    assert len(listed) >= 75
    assert all({"id", "title", "stage", "severity", "source"} <= set(one) for one in listed)
    assert len({one["id"] for one in listed}) == len(listed)


def test_waivers_of_the_folder_are_taken_and_a_bad_one_is_refused() -> None:
    content = document()
    content["hosts"]["node1"]["rdma"]["lldpad"] = True
    name = write(content)
    good = "- {id: RDMA014, host: node1, owner: ops, reason: switch first, expiry: 2999-01-01}\n"
    write(good, "waivers.yml")
    result = run(doctor.command, "--facts", name, "--only", "RDMA014")
    assert result.exit_code == 0
    assert "waived RDMA014" in result.output
    for bad, says in (
        (good.replace("RDMA014", "RDMA999"), "no check"),
        (good.replace("owner: ops, ", ""), "exactly"),
        (good.replace("2999-01-01", "soon"), "write a day"),
        (good.replace("ops", "''"), "no owner"),
        ("{id: RDMA014}", "not a list"),
        ("- {id: [", "YAML"),
    ):
        write(bad, "waivers.yml")
        with pytest.raises(KvlabError, match=says):
            run(doctor.command, "--facts", name, "--only", "RDMA014")


def test_drift_names_what_changed_since_the_lab_was_accepted() -> None:
    content = document()
    name = write(content)
    with pytest.raises(KvlabError, match="kvlab facts accept"):
        run(drift.command, "--facts", name)
    assert run(facts.command, "accept", "--facts", name).exit_code == 0
    result = run(drift.command, "--facts", name)
    assert (result.exit_code, "nothing changed" in result.output) == (0, True)
    node = content["hosts"]["node2"]
    node["venv"]["versions"]["numpy"] = "2.2.6"
    node["rdma"]["devices"][0]["firmware"] = "28.39.1002"
    node["firmware"]["bios"]["version"] = "2.5.4"
    node["firmware"]["gpus"][0]["vbios"] = "96.00.99.00.01"
    node["rdma"]["qos"]["rail0"]["trust"] = "pcp"
    node["gpu_topology"]["assignment"]["GPU1"]["distance"] = "SYS"
    result = run(drift.command, "--facts", write(content), "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {(c["host"], c["area"]) for c in told["changes"]} == {
        ("node2", area) for area in ("packages", "firmware", "settings", "topology")
    }
    assert len(told["changes"]) == 6


def test_drift_of_a_lab_that_cannot_be_seen_whole_ends_with_2() -> None:
    content = document()
    run(facts.command, "accept", "--facts", write(content))
    del content["hosts"]["node2"]
    content["problems"] = [{"host": "node2", "topic": "", "reason": "timed out"}]
    result = run(drift.command, "--facts", write(content))
    assert result.exit_code == 2
    assert "could not compare node2: timed out" in result.output
    assert "topology: host" not in result.output
    with pytest.raises(KvlabError, match="nothing was accepted"):
        run(facts.command, "accept", "--facts", "facts.json")


def test_a_host_that_is_gone_from_the_lab_is_drift() -> None:
    content = document()
    run(facts.command, "accept", "--facts", write(content))
    del content["hosts"]["node2"]
    result = run(drift.command, "--facts", write(content))
    assert result.exit_code == 1
    assert "node2 topology: host was in the lab, is absent" in result.output


def test_the_page_of_checks_is_made_from_the_registry() -> None:
    spec = importlib.util.spec_from_file_location("checks_page", ROOT / "ci" / "checks_page.py")
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    text = (ROOT / "docs" / "checks.md").read_text()
    assert maker.page(text) == text, "run ci/checks_page.py"
