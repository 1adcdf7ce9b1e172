"""The gate's own error rates, measured on series of which the truth is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from kvlab.cli.gate import command
from kvlab.errors import KvlabError
from kvlab.ttft import rivals
from kvlab.ttft.simulate import World, simulate


def test_the_gate_rarely_cries_wolf_and_finds_what_is_there() -> None:
    found = simulate(runs=2000, seed=7)
    assert found["false_alarm_rate"] <= 0.02
    assert found["detection_rate"]["10%"] >= 0.95
    assert found["detection_rate"]["20%"] >= 0.99
    assert 0.9 < found["cell_detection_rate"]["10%"] <= found["cell_detection_rate"]["20%"]


def test_rules_that_take_passes_for_samples_cry_wolf_where_starts_differ() -> None:
    found = simulate(runs=400, seed=3)["rivals"]
    assert found["mann_whitney_on_passes"]["false_alarm_rate"] > 0.15
    assert found["pytest_benchmark"]["false_alarm_rate"] > 0.3
    assert found["fixed_ratio"]["detection_rate"]["10%"] < 0.9


def test_mann_whitney_keeps_its_level_where_all_starts_are_alike() -> None:
    found = simulate(World(start_spread=0.0), runs=400, seed=3)["rivals"]
    assert found["mann_whitney_on_passes"]["false_alarm_rate"] < 0.08


def test_a_start_moves_all_contexts_of_its_profile_together() -> None:
    passes = World(pass_noise=0.001, outliers=0.0, start_spread=0.05).draw(50, np.random.default_rng(1))
    starts = passes.mean(-1)
    assert starts.std(-1).mean() < 0.001
    assert 0.04 < starts.mean(-1).std() < 0.06


def test_one_profile_may_spread_more_than_the_others() -> None:
    passes = World(uneven=3.0, start_spread=0.05).draw(50, np.random.default_rng(1))
    spread = passes.mean((-1, -2)).std((0, 1, 3))
    assert spread[2] == pytest.approx(3 * spread[0], rel=0.2)
    assert spread[1] == pytest.approx(spread[0], rel=0.2)


def test_every_rival_sees_a_doubled_cell_and_no_change_where_there_is_none() -> None:
    base = np.random.default_rng(1).normal(0, 0.001, (2, 3, 2, 5))
    slower = np.random.default_rng(2).normal(0, 0.001, (2, 3, 2, 5))
    slower[1, :, 0] += np.log(2)
    for rule in rivals.RIVALS.values():
        assert rule(base, slower).tolist() == [[False, False], [True, False]]


def test_the_last_line_is_json_and_a_seed_gives_the_same_again() -> None:
    runs = [CliRunner().invoke(command, ["simulate", "--json", "--runs", "60", "--seed", "5"]) for _ in "ab"]
    assert runs[0].exit_code == 0
    assert runs[0].output == runs[1].output
    found = json.loads(runs[0].output.splitlines()[-1])
    assert found["simulated"] is True
    assert set(found["detection_rate"]) == {"10%", "20%"}
    assert 0 <= found["false_alarm_rate"] <= 1


@pytest.mark.parametrize("given", [{"starts": 2}, {"contexts": 0}])
def test_a_world_that_no_gate_could_judge_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(KvlabError, match="give 3 starts or more"):
        simulate(World(**given), runs=10)
