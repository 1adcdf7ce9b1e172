"""A plan is read whole, or refused with one sentence that names the mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.ttft import plan as plans

THRESHOLDS = Path(__file__).parents[3] / "thresholds"
GIVEN: dict[str, Any] = {
    "name": "p",
    "model": "m",
    "contexts": [256, 1024],
    "profiles": ["baseline", "s3-http", "s3-rdma"],
}


def test_the_plans_of_the_project_are_plans() -> None:
    found = {path.stem: plans.read(path) for path in THRESHOLDS.glob("*.yml")}
    assert found.keys() == {"calibration", "local", "smoke", "xe9680-h100"}
    assert all(plan.name == name for name, plan in found.items())
    assert found["xe9680-h100"].contexts[-1] == 235_000
    assert found["xe9680-h100"].limits == plans.Limits(
        speedup_longest_min=13.4,
        crossover_exists=True,
        http_over_rdma_longest_min=1.3,
        client_cpu_saving_min=0.9,
    )


def test_a_plan_survives_the_way_through_a_result_file() -> None:
    plan = plans.from_mapping({**GIVEN, "limits": {"crossover_exists": True}}, "p.yml")
    assert plans.from_mapping(plan.as_mapping(), "again") == plan


def test_the_longest_prompt_includes_the_warmup_and_the_answer() -> None:
    assert plans.from_mapping({**GIVEN, "max_tokens": 10}, "p.yml").tokens() == 1034
    assert plans.from_mapping({**GIVEN, "max_tokens": 10, "warmup_tokens": 2000}, "p.yml").tokens() == 2010


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"context": [1]}, "unknown field `context`"),
        ({"limits": {"speedup_min": 2}}, "unknown field `speedup_min`"),
        ({"contexts": [0]}, "contexts"),
        ({"contexts": []}, "lists no contexts"),
        ({"contexts": [256, 256]}, "lists one of contexts twice"),
        ({"profiles": ["s3-tcp"]}, "s3-tcp"),
        ({"where_configured": ["baseline"]}, "lists one of profiles twice"),
        ({"concurrency": []}, "lists no concurrency"),
        ({"starts": 1_000_000}, "asks for .* requests, more than 1000000"),
        ({"hot_passes_of": {"file": 3}}, "has hot_passes_of file, which it does not measure"),
        ({"hot_passes_of": {"nfs": 3}}, "Invalid enum value 'nfs'"),
        ({"limits": {"crossover_exists": False}}, "leave the limit out"),
        ({"limits": {"client_cpu_saving_min": 1.5}}, "<= 1"),
        (
            {"profiles": ["baseline", "s3-rdma"], "limits": {"client_cpu_saving_min": 0.5}},
            "not measure s3-http",
        ),
        ({"profiles": ["s3-http", "s3-rdma"], "limits": {"speedup_longest_min": 2}}, "not measure baseline"),
    ],
)
def test_a_mistake_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(KvlabError, match=f"the plan p.yml .*{says}"):
        plans.from_mapping({**GIVEN, **change}, "p.yml")


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), ("a: [", "is not YAML"), ("1", "not as kvlab")]
)
def test_a_file_that_is_no_plan_is_one_sentence(tmp_path: Path, content: str | None, says: str) -> None:
    file = tmp_path / "p.yml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(KvlabError, match=says) as caught:
        plans.read(file)
    assert "\n" not in str(caught.value)
