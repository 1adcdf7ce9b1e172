"""Rules and dashboard: promtool accepts them, their tests pass, and each metric they ask for is exported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import CounterMetricFamily

from kvlab.exporter.collector import KvlabCollector, Profile
from kvlab.exporter.store import Buckets, Content

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "monitoring/prometheus"
DASHBOARD = json.loads((ROOT / "monitoring/grafana/kvlab.json").read_text("utf-8"))
RULES = yaml.safe_load((PROMETHEUS / "kvlab.rules.yml").read_text("utf-8"))["groups"][0]["rules"]
METRIC = re.compile(r"\b(?:kvlab_|vllm:|lmcache:)\w+")


def promtool(*arguments: object, cwd: Path = PROMETHEUS) -> str:
    command = [os.environ["PROMTOOL"], *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def queries() -> list[str]:
    """Every expression of the dashboard."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of all metrics: the exporter's own from itself, those of vLLM and LMCache as recorded."""
    port = tmp_path_factory.mktemp("sysfs") / "class/infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (port / "counters/port_rcv_data").write_text("1\n")
    server = {"available": True, "healthy": True, "counters": {"l2_loaded_chunks": 1, "lookup_hit_tokens": 1}}
    buckets = Buckets(("kv",), lambda _name: (0, 0), 1, {"kv": Content(1, 1, 1.0)})
    collector = KvlabCollector(
        "0",
        True,
        lambda: Profile("s3-rdma", "rdma", 1, lambda: server),
        buckets,
        {"kv": 1},
        port.parents[4],
    )
    names = set()
    for family in collector.collect():
        names.add(f"{family.name}_total" if isinstance(family, CounterMetricFamily) else family.name)
    for file in (ROOT / "tests/fixtures/metrics").glob("*.txt"):
        names |= set(file.read_text("utf-8").split())
    return names


def test_promtool_accepts_rules_and_configuration() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "--lint-fatal", "kvlab.rules.yml")
    promtool("check", "config", "prometheus.yml")


def test_each_alert_fires_for_its_fault_and_stays_silent_without_it() -> None:
    assert "SUCCESS" in promtool("test", "rules", "kvlab.test.yml")


def test_each_alert_is_tested_in_both_directions() -> None:
    tests = yaml.safe_load((PROMETHEUS / "kvlab.test.yml").read_text("utf-8"))["tests"]
    alerts = {rule["alert"] for rule in RULES}
    silent = {row["alertname"] for row in tests[0]["alert_rule_test"] if not row.get("exp_alerts")}
    fired = {
        row["alertname"] for test in tests for row in test.get("alert_rule_test", []) if row.get("exp_alerts")
    }
    for test in tests:
        for row in test.get("promql_expr_test", []):
            fired |= set(re.findall(r'alertname="(\w+)"', json.dumps(row).replace('\\"', '"')))
    assert silent == alerts
    assert alerts <= fired


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_asks_for_metrics_that_exist_and_says_what_to_do(
    rule: dict[str, Any], exported: set[str]
) -> None:
    assert set(METRIC.findall(rule["expr"])) <= exported
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith(".")


def test_the_dashboard_asks_for_metrics_that_exist(exported: set[str]) -> None:
    asked = {name for query in queries() for name in METRIC.findall(query)}
    assert len(asked) > 10
    assert asked <= exported


def test_promtool_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{at}", "expr": query.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for at, query in enumerate(queries())
    ]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", "queries.yml", cwd=tmp_path)


def test_the_dashboard_is_the_one_that_its_program_writes() -> None:
    command = [sys.executable, ROOT / "ci/dashboard.py", "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_panels_do_not_lie_on_each_other_and_each_says_what_it_is_for() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"]
