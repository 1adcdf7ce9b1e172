"""The order of a run, what it keeps when it is cut short, and how it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ttft_site import FakeSite, request

from kvlab.cli import _ttft
from kvlab.errors import KvlabError
from kvlab.serving.lab import Lab
from kvlab.ttft import measure, plan, prompts, result
from kvlab.ttft.plan import Plan
from kvlab.ttft.result import Result
from kvlab.ttft.site import environment

PROFILES = ["baseline", "s3-http", "s3-rdma"]


def a_plan(**changed: Any) -> Plan:
    values = {
        "name": "p",
        "model": "m",
        "contexts": [64, 512],
        "profiles": PROFILES,
        "starts": 2,
        "hot_passes": 2,
    }
    return plan.from_mapping(values | changed, "p")


def a_result(of: Plan) -> Result:
    return Result(id="run-1", created="2026-12-01T00:00:00Z", simulated=True, plan=of.as_mapping())


def go(site: FakeSite, of: Plan, into: Result, saved: list[Result] | None = None) -> list[str]:
    told: list[str] = []
    keep = (
        (lambda r: saved.append(result.decode(result.encode(r), "copy")))
        if saved is not None
        else (lambda _r: None)
    )
    run = measure.Run(of, PROFILES, site, into, keep, told.append, clock=site.clock)
    run.go()
    return told


def test_profiles_take_turns_and_each_start_measures_every_context() -> None:
    site, of = FakeSite(), a_plan()
    made = a_result(of)
    go(site, of, made)
    assert site.started == PROFILES * 2
    assert [(s.number, s.profile, s.index) for s in made.starts][3] == (3, "baseline", 1)
    assert made.complete
    one = [(p.series, p.context, p.index) for p in made.passes if p.start == 4]
    assert one == [(s, c, i) for c in (64, 512) for s, i in (("cold", 0), ("hot", 0), ("hot", 1))]
    assert all(p.proven for p in made.passes)


def test_hot_passes_repeat_the_cold_prompt_and_no_start_shares_one() -> None:
    site, of = FakeSite(), a_plan()
    go(site, of, a_result(of))
    by_start: list[set[tuple[int, ...]]] = []
    for series, _profile, ids in site.asked:
        if series == "warmup":
            by_start.append({ids})
        else:
            by_start[-1].add(ids)
    assert [len(found) for found in by_start] == [3] * 6  # warm-up, two contexts
    first_chunks = [ids[:16] for found in by_start for ids in found]
    assert len(set(first_chunks)) == len(first_chunks)


def test_requests_at_once_have_prompts_of_their_own() -> None:
    site, of = FakeSite(), a_plan(concurrency=[1, 4], starts=1)
    made = a_result(of)
    go(site, of, made)
    four = [p for p in made.passes if p.concurrency == 4 and p.start == 2 and p.context == 512]
    assert [(p.series, p.index, p.request) for p in four[:5]] == [("cold", 0, r) for r in range(4)] + [
        ("hot", 0, 0)
    ]
    assert four[-1].expected_hit_tokens == 4 * 512
    assert four[-1].rdma_bytes == 8 * 1024


def test_every_pass_is_saved_before_the_next_begins() -> None:
    site, of = FakeSite(), a_plan(starts=1)
    saved: list[Result] = []
    go(site, of, a_result(of), saved)
    assert [len(r.passes) for r in saved[:-1]] == list(range(1, 19))
    assert [r.complete for r in saved[-2:]] == [False, True]


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (KeyboardInterrupt(), measure.InterruptedRunError, "interrupted"),
        (KvlabError("vLLM does not answer."), KvlabError, "vLLM does not answer"),
    ],
)
def test_what_was_measured_before_the_end_is_kept_and_a_rerun_goes_on(
    trouble: BaseException, kind: type[Exception], words: str
) -> None:
    def in_the_second_context(number: int) -> None:
        if number == 34:
            raise trouble

    site, of, saved = FakeSite(before=in_the_second_context), a_plan(), []
    made = a_result(of)
    with pytest.raises(kind, match=words) as caught:
        go(site, of, made, saved)
    assert "--resume" in str(caught.value)
    kept = saved[-1]
    assert kept.stopped
    assert not kept.complete
    assert len(kept.passes) == len(made.passes) > 20
    before = list(kept.passes)
    again = FakeSite()
    go(again, of, kept)
    assert kept.complete
    assert kept.stopped == ""
    # The fifth start goes on where it was, by a start of its own; its whole context is not measured again.
    assert again.started == ["s3-http", "s3-rdma"]
    assert [(s.number, s.profile, s.index) for s in kept.starts][4:] == [
        (4, "s3-http", 1),
        (5, "s3-http", 1),
        (6, "s3-rdma", 1),
    ]
    assert kept.passes[: len(before)] == before
    assert {p.context for p in kept.passes if p.start == 4} == {64, 512}
    assert {p.context for p in kept.passes if p.start == 5} == {512}
    assert result.decode(result.encode(kept), "copy").passes == kept.passes
    assert measure.remaining(of, PROFILES, kept) == []


def test_a_start_that_measured_nothing_is_forgotten_when_the_run_goes_on() -> None:
    def at_once(_number: int) -> None:
        raise KeyboardInterrupt

    of = a_plan(starts=1)
    made = a_result(of)
    with pytest.raises(measure.InterruptedRunError):
        go(FakeSite(before=at_once), of, made)
    go(FakeSite(), of, made)
    assert [s.profile for s in made.starts] == PROFILES


def test_starts_and_contexts_are_added_to_a_finished_run() -> None:
    of = a_plan()
    made = a_result(of)
    go(FakeSite(), of, made)
    more, site = a_plan(starts=3, contexts=[64, 512, 1024]), FakeSite()
    go(site, more, made)
    assert site.started == PROFILES * 3
    counted = {(s.profile, s.index): 0 for s in made.starts}
    for one in made.passes:
        start = next(s for s in made.starts if s.number == one.start)
        counted[start.profile, start.index] += 1
    assert set(counted.values()) == {9}
    assert made.complete
    prompts_of_a_start = {ids for _, _, ids in site.asked}
    assert len(prompts_of_a_start) == 9 + 3 * (1 + 1 + 3)  # a warm-up each; new contexts, and a whole start


def test_a_profile_may_have_fewer_hot_passes() -> None:
    of = a_plan(starts=1, hot_passes=5, hot_passes_of={"baseline": 3})
    made = a_result(of)
    go(FakeSite(), of, made)
    assert [sum(p.profile == name for p in made.passes) for name in PROFILES] == [8, 12, 12]
    assert measure.remaining(of, PROFILES, made) == []


def test_progress_counts_every_pass_and_what_is_left_shrinks_to_nothing() -> None:
    site, of = FakeSite(), a_plan()
    seen: list[tuple[int, int, float | None]] = []
    run = measure.Run(
        of, PROFILES, site, a_result(of), lambda _r: None, lambda _line: None,
        lambda *shown: seen.append(shown), clock=site.clock,
    )  # fmt: skip
    run.go()
    assert [done for done, _, left in seen if left is not None] == sorted(done for done, _, _ in seen)
    assert {total for _, total, _ in seen} == {36}
    assert seen[-1] == (36, 36, 0.0)
    # Every pass of the fake lab takes a second, and a start no time.
    assert seen[20][2] == pytest.approx(36 - seen[20][0])


def test_services_that_do_not_come_up_end_the_run_with_their_name() -> None:
    site, of = FakeSite(refuses="s3-rdma"), a_plan()
    made = a_result(of)
    with pytest.raises(KvlabError, match="s3-rdma does not come up"):
        go(site, of, made)
    assert [s.profile for s in made.starts] == ["baseline", "s3-http"]
    assert "does not come up" in made.stopped


def test_a_pass_without_its_proof_is_kept_and_marked() -> None:
    def spoil(group: Any) -> Any:
        if group.series == "hot" and group.profile == "s3-rdma" and group.context == 512:
            group.answers[0]["error"] = "vLLM was silent for 300 s"
        return group

    site, of = FakeSite(spoil=spoil), a_plan(starts=1)
    made = a_result(of)
    told = go(site, of, made)
    bad = [p for p in made.passes if not p.proven]
    assert [(p.profile, p.context, p.series) for p in bad] == [("s3-rdma", 512, "hot")] * 2
    assert "silent" in bad[0].reasons[0]
    assert any("1 of 3 proven" in line and "silent" in line for line in told)
    assert "512" in _ttft.table(made)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"lmcache_after": {"available": False, "error": "refused", "counters": {}}},
            "LMCache's server is gone",
        ),
        (
            {"access_log": [request("PutObject", "k") | {"status": 507, "error": "QuotaExceeded"}]},
            "refused 1 of 1 objects",
        ),
    ],
)
def test_a_pass_after_which_none_can_be_proven_is_kept_and_ends_the_run(
    changed: dict[str, Any], words: str
) -> None:
    def spoil(group: Any) -> Any:
        if group.profile == "s3-rdma" and group.context == 512:
            group.facts.update(changed)
        return group

    site, of, saved = FakeSite(spoil=spoil), a_plan(starts=1), []
    with pytest.raises(
        KvlabError, match=rf"{words}.*; .*\. 16 passes are kept; go on with --resume"
    ) as caught:
        go(site, of, a_result(of), saved)
    assert "\n" not in str(caught.value)
    assert (saved[-1].passes[-1].profile, saved[-1].passes[-1].context) == ("s3-rdma", 512)
    assert words in saved[-1].stopped


def test_the_table_gives_medians_and_the_95th_percentile_of_requests_at_once() -> None:
    def slower(group: Any) -> Any:
        for number, one in enumerate(group.answers):
            one["ttft_ms"] = 10.0 * (number + 1)
        return group

    site, of = FakeSite(spoil=slower), a_plan(starts=1, contexts=[512], concurrency=[1, 3])
    made = a_result(of)
    go(site, of, made)
    _, alone, at_once = _ttft.table(made).splitlines()
    assert alone.split() == ["512", *["10.0", "ms"] * 4]
    assert at_once.split() == ["512", "x3", *["20.0", "/", "30.0", "ms"] * 4]


def test_time_left_is_told_from_the_second_start_on() -> None:
    site, of = FakeSite(), a_plan()
    told = go(site, of, a_result(of))
    starts = [line for line in told if line.startswith("start ")]
    assert starts[0] == "start 1 of 6: baseline"
    assert "left" in starts[1]


def test_profiles_of_a_lab() -> None:
    of = a_plan(profiles=["baseline", "s3-rdma"], where_configured=["file"])
    assert measure.profiles_of(of, {"baseline": 1, "s3-rdma": 1}) == ["baseline", "s3-rdma"]
    assert measure.profiles_of(of, {"baseline": 1, "s3-rdma": 1, "file": 1})[-1] == "file"
    with pytest.raises(KvlabError, match="measures s3-rdma, which this lab has not"):
        measure.profiles_of(of, {"baseline": 1})


def test_prompts_are_the_same_everywhere_and_shorter_ones_are_no_prefix() -> None:
    one = prompts.prompt("run", 1, 2, 64)
    assert one == prompts.prompt("run", 1, 2, 64)
    assert len(set(one)) > 20
    assert prompts.prompt("run", 1, 2, 128)[:64] != one
    assert prompts.prompt("other", 1, 2, 64) != one


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plan": {"name": "q"}}, "another plan"),
        ({"environment": {"versions.vllm": "2"}}, "another environment (versions.vllm changed)"),
        ({"plan": a_plan(hot_passes=3).as_mapping()}, "another plan (hot_passes changed)"),
        ({"plan": a_plan(contexts=[64, 128]).as_mapping()}, "another plan (contexts changed)"),
    ],
)
def test_a_run_goes_on_only_where_it_began(change: dict[str, Any], words: str) -> None:
    of = a_plan()
    values = {"environment": {"versions.vllm": "1"}, "plan": of.as_mapping(), "complete": False} | change
    found = Result(id="r", created="2026-12-01T00:00:00Z", simulated=True, **values)
    with pytest.raises(KvlabError) as caught:
        _ttft.resumed(found, of, PROFILES, {"versions.vllm": "1"}, Path("r.json"))
    assert words in str(caught.value)


def test_a_run_goes_on_with_other_limits_and_more_starts_and_a_whole_one_does_not() -> None:
    of = a_plan()
    made = a_result(of)
    go(FakeSite(), of, made)
    with pytest.raises(KvlabError, match="is complete; ask for more --starts"):
        _ttft.resumed(made, of, PROFILES, {}, Path("r.json"))
    more = a_plan(starts=3, store_s=10, limits={"speedup_longest_min": 2})
    assert _ttft.resumed(made, more, PROFILES, {}, Path("r.json")).plan == more.as_mapping()


@pytest.mark.parametrize(
    ("script", "gpu", "driver"),
    [
        ("printf 'NVIDIA H100, 580.95.05\\nNVIDIA H100, 580.95.05\\n'", "2 x NVIDIA H100", "580.95.05"),
        ("echo 'NVML failed, version mismatch'; exit 18", "none", "none"),
        (None, "none", "none"),
    ],
)
def test_the_environment_names_gpus_and_their_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, gpu: str, driver: str
) -> None:
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    data = {"stack": "s", "simulated": True, "profiles": {}, "model": {"dir": str(tmp_path)}}
    found = environment(Lab(tmp_path, data), a_plan())
    assert (found["hardware.gpu"], found["driver.nvidia"]) == (gpu, driver)
