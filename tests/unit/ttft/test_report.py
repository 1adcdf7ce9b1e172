"""The report shows what results hold: proven passes as numbers, all others marked, a stand-in's part everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import ttft_generator
from click.testing import CliRunner

from kvlab.checks import REGISTRY
from kvlab.cli import kvlab
from kvlab.doctor import diagnosis
from kvlab.errors import KvlabError
from kvlab.report import load, page, series, verdicts
from kvlab.report.series import Key
from kvlab.ttft import claims, gate, result
from kvlab.ttft.plan import Limits
from kvlab.ttft.result import Pass, Result

CONTEXTS = (64, 1024, 8192)
PLAN: dict[str, Any] = {
    "name": "local",
    "model": "kvlab-test",
    "limits": {"speedup_longest_min": 2, "http_over_rdma_longest_min": 50},
}
FIGURES = ["ttft-hot", "speedup", "http-over-rdma", "client-cpu", "ttft-cold"]
NONE, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
FACTOR = rf"[\d.]+{TIMES}"
LABEL = "simulated: shapes only, no performance"


def a_run(**fields: Any) -> Result:
    return ttft_generator.result(**{"contexts": CONTEXTS, "starts": 3, "hot": 3, "plan": PLAN, **fields})


def changed(run: Result, which: Callable[[Pass], bool], **fields: Any) -> Result:
    """The run with other values in some of its passes."""
    run.passes = [msgspec.structs.replace(one, **fields) if which(one) else one for one in run.passes]
    return run


def loaded(tmp_path: Path, *runs: Result) -> load.Loaded:
    paths = [tmp_path / f"{run.id}.json" for run in runs]
    for run, path in zip(runs, paths, strict=True):
        result.write(run, path)
    return load.load(paths)


class Text(HTMLParser):
    """What is read on a page: rows of its tables by caption, and all its text outside style, script and drawings."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self.text, self._caption, self._in, self._hidden = "", "", "", 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script", "svg")
        if tag == "caption":
            self._caption, self._in = "", tag
        elif tag == "tr":
            self.rows.setdefault(self._caption, []).append([])
        elif tag in ("td", "th"):
            self.rows[self._caption][-1].append("")
            self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "svg")
        if tag == self._in:
            self._in = ""

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self.text += data
        if self._in == "caption":
            self._caption += data
        elif self._in:
            self.rows[self._caption][-1][-1] += data.strip()

    def table(self, caption: str) -> list[list[str]]:
        return next(rows for name, rows in self.rows.items() if name.startswith(caption))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[page.Report, Text]:
    run = changed(
        a_run(hot=4, simulated_parts=["ObjectScale: <emulated>"]),
        lambda one: (one.start, one.context, one.series, one.index) == (2, 8192, "hot", 1),
        proven=False,
        ttft_first_token_s=9.0,
        reasons=["hit 0 tokens, and 8,128 were expected"],
    )
    report = page.build(loaded(tmp_path_factory.mktemp("report"), run))
    return report, Text(report.html)


def test_a_number_is_the_mean_of_the_starts_medians_as_in_the_claims() -> None:
    run = a_run()
    found = series.cells([run])
    [claim] = [c for c in claims.claims([run]) if (c.kind, c.context) == ("http_over_rdma", 8192)]
    assert series.ratio(found, "s3-http", "s3-rdma", 1)[8192] == pytest.approx(claim.value)
    cell = found[Key("s3-rdma", "hot", 8192, 1)]
    assert (len(cell.starts), len(cell.proven), cell.total) == (3, 9, 9)
    assert cell.spread == pytest.approx(max(cell.starts) / min(cell.starts) - 1)


def test_a_pass_that_is_not_proven_enters_no_number() -> None:
    slow = changed(
        a_run(), lambda one: one.index == 0 and one.series == "hot", proven=False, ttft_first_token_s=99.0
    )
    cell = series.cells([slow])[Key("s3-rdma", "hot", 1024, 1)]
    assert cell.unproven == [99.0] * 3
    assert max(cell.proven) < 1
    assert cell.starts == []  # two proven passes of a start are too few for a median
    lost = changed(a_run(), lambda one: one.index == 0, ttft_first_token_s=None)
    cell = series.cells([lost])[Key("s3-rdma", "hot", 1024, 1)]
    assert (cell.untimed, len(cell.proven), cell.total) == (3, 6, 9)


def test_an_unproven_pass_is_shown_marked_with_its_reason(built: tuple[page.Report, Text]) -> None:
    report, text = built
    assert ["s3-rdma", "hot", "hit 0 tokens, and 8,128 were expected", "8,192", "1"] in text.table(
        "Passes and"
    )
    assert "1 of 135 passes are not proven" in text.text
    row = next(r for r in text.table("TTFT of") if r[:3] == ["s3-rdma", "hot", "8,192"])
    assert row[4:7] == ["3", "11", "1"]
    [hot] = [picture for picture in report.pictures if picture.name == "ttft-hot"]
    assert ">not proven<" in hot.svg
    assert "9,000" not in report.html


def test_a_start_that_failed_and_a_run_that_stopped_are_told(tmp_path: Path) -> None:
    run = a_run()
    run.starts[0] = msgspec.structs.replace(run.starts[0], error="vLLM ended with 1")
    run.complete, run.stopped = False, "the store is full"
    text = Text(page.build(loaded(tmp_path, run)).html)
    assert ["baseline", "whole start", "vLLM ended with 1", NONE, NONE] in text.table("Passes and")
    assert "stopped: the store is full" in text.text


def test_what_is_simulated_is_labelled_everywhere(built: tuple[page.Report, Text]) -> None:
    report, text = built
    assert [picture.name for picture in report.pictures] == [*FIGURES, "history"]
    assert all(LABEL in picture.svg for picture in report.pictures)
    assert "<title>[simulated] " in report.html
    assert "ObjectScale: <emulated>" in text.text
    captions = [name for name in text.rows if not name.startswith("Runs")]
    assert captions
    assert all("simulated" in caption for caption in captions)
    assert text.table("Runs")[1][0] == "run-1simulated"
    assert len(re.findall(r'aria-label="Simulated\. ', report.html)) == len(report.pictures)


def test_what_is_not_simulated_does_not_say_so(tmp_path: Path) -> None:
    report = page.build(loaded(tmp_path, a_run(simulated=False)))
    assert "simulated" not in Text(report.html).text.lower()
    assert not any(LABEL in picture.svg for picture in report.pictures)


def test_limits_of_the_plan_are_judged_with_their_evidence(built: tuple[page.Report, Text]) -> None:
    rows = {row[0]: row[1:] for row in built[1].table("Verdicts")}
    assert rows["speed-up, s3-rdma over baseline at 8,192 tokens"][0] == "passsimulated"
    verdict, evidence, missing = rows["TTFT, s3-http over s3-rdma at 8,192 tokens"]
    assert (verdict, missing) == ("failsimulated", NONE)
    assert re.fullmatch(
        rf"measured {FACTOR}, 95 % interval {FACTOR} to {FACTOR}limit 50\.00{TIMES}", evidence
    )


def test_a_claim_that_cannot_be_decided_says_what_is_missing() -> None:
    found = claims.claims([a_run(starts=1)], Limits(speedup_longest_min=2, crossover_exists=True))
    judged = verdicts.of_claims(found)
    assert [one.verdict for one in judged] == ["inconclusive"] * 2
    assert all("of 3 starts with proven TTFT; measure more" in one.missing[0] for one in judged)


def test_the_gates_verdict_is_read_from_what_it_printed(tmp_path: Path) -> None:
    base, slower = a_run(starts=5, seed=1), a_run(starts=5, seed=2, slower={"s3-http": 1.3})
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({**gate.compare([base], [slower]).as_json(), "trends": []}))
    overall, *profiles = verdicts.of_gate(verdicts.gate(path))
    assert (overall.name, overall.verdict, overall.simulated) == ("gate", "regress", True)
    assert overall.evidence[0] == "run-2 compared with run-1"
    [http] = [one for one in profiles if one.name == "gate, s3-http"]
    assert http.verdict == "regress"
    assert any(re.match(r"TTFT moved by \+\d\d\.\d%, 95 % interval", line) for line in http.evidence)
    assert "stages that moved: retrieve" in http.evidence


def test_only_runs_of_the_newest_environment_and_commit_are_measured(tmp_path: Path) -> None:
    other = {**ttft_generator.ENVIRONMENT, "hardware.cpu": "Other"}
    found = loaded(
        tmp_path,
        a_run(id="elsewhere", created="2026-01-01T00:00:00Z", environment=other),
        a_run(id="real", created="2026-01-02T00:00:00Z", simulated=False),
        a_run(id="old", created="2026-01-03T00:00:00Z", commit="a"),
        a_run(id="new", created="2026-01-05T00:00:00Z", commit="b"),
        a_run(id="same", created="2026-01-04T00:00:00Z", commit="b"),
    )
    assert [one.id for one in found.shown] == ["same", "new"]
    assert [one.id for one in found.past] == ["old", "same", "new"]
    assert dict.fromkeys(point.run for point in found.history).keys() == {"old", "same", "new"}
    assert [(run.id, run.shown, run.same) for run in found.runs] == [
        ("new", True, True),
        ("same", True, True),
        ("old", False, True),
        ("real", False, False),
        ("elsewhere", False, False),
    ]


def test_history_has_the_proven_median_of_each_start_and_its_change_points(tmp_path: Path) -> None:
    runs = [
        a_run(
            id=f"r{at}", seed=at, starts=10, commit=str(at), created=f"2026-01-0{at}T00:00:00Z",
            slower={"s3-http": 1.4} if at > 2 else None,
        )
        for at in range(1, 5)
    ]  # fmt: skip
    found = loaded(tmp_path, *runs)
    points = [point for point in found.history if point.profile == "s3-rdma"]
    assert len(points) == 40
    assert {point.context for point in points} == {8192}
    assert points[0].ttft_s == pytest.approx(
        sorted(
            p.ttft_first_token_s for p in runs[0].passes if (p.start, p.context, p.series) == (2, 8192, "hot")
        )[1]
    )
    report = page.build(found)
    text = Text(report.html).text
    assert re.search(r"s3-http: \+\d\d\.\d% from r3 on \(40 starts\)", text)
    assert "s3-rdma: one level over 40 starts." in text
    assert re.search(r"s3-http: 40 starts, .* changed by \+\d\d\.\d% from r3 on", report.pictures[-1].alt)


def test_an_imported_result_without_any_proven_pass_has_crosses_and_no_number(tmp_path: Path) -> None:
    run = changed(a_run(plan={}), lambda _: True, proven=False, reasons=["imported"])
    report = page.build(loaded(tmp_path, run))
    assert [picture.name for picture in report.pictures] == ["ttft-hot", "ttft-cold"]
    assert "No pass is proven" in report.pictures[0].alt
    rows = Text(report.html).table("TTFT of")[1:]
    assert rows
    assert all(row[7:] == [NONE] * 4 for row in rows)


def test_a_result_with_no_pass_at_all_is_a_page_too(tmp_path: Path) -> None:
    run = a_run()
    run.passes.clear()
    report = page.build(loaded(tmp_path, run))
    assert report.pictures == []
    assert "there is nothing to draw" in Text(report.html).text


def test_what_a_result_says_is_text_and_never_markup_or_formula(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> $x^2$"
    run = a_run(profiles=("baseline", evil), commit=evil, environment={"hardware.cpu": evil})
    report = page.build(loaded(tmp_path, run))
    assert report.html.count("<script>") == 1
    assert ">&lt;script&gt;alert(1)&lt;/script&gt; $x^2$<" in report.pictures[0].svg
    assert evil in Text(report.html).text


def test_ids_are_used_once_and_references_are_answered(built: tuple[page.Report, Text]) -> None:
    html = built[0].html
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)).isdisjoint({("", "")})
    assert {a or b for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)} <= set(ids)


def test_the_same_results_give_the_same_page(built: tuple[page.Report, Text], tmp_path: Path) -> None:
    one, other = (page.build(loaded(tmp_path, a_run())) for _ in range(2))
    assert one.html == other.html


def test_the_command_writes_page_and_pngs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    loaded(tmp_path / "in", a_run())
    notes = tmp_path / "findings.json"
    finding = {
        "id": "RDMA004", "severity": "major", "status": "fail", "title": "PFC is off", "evidence": ["pfc 0"],
        "remedy": "Set it.", "source": "facts", "simulated": True,
    }  # fmt: skip
    notes.write_text(json.dumps({"findings": [finding]}))
    said = CliRunner().invoke(
        kvlab, ["report", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--findings", str(notes)]
    )
    assert said.exit_code == 0, said.output
    written = Path(said.output.strip())
    assert written == tmp_path / "out" / "index.html"
    rows = Text(written.read_text()).table("Findings")
    assert rows[1] == ["RDMA004", "failsimulated", "major", "PFC is off", "pfc 0", "Set it."]
    pngs = {file.stem: file.read_bytes() for file in (tmp_path / "out" / "figures").glob("*.png")}
    assert pngs.keys() == {*FIGURES, "history"}
    assert all(content.startswith(b"\x89PNG") for content in pngs.values())


def test_what_the_doctor_recorded_is_shown_by_host(tmp_path: Path) -> None:
    check = next(iter(REGISTRY.values()))
    group = diagnosis.Group(check, "fail", {"gpu-1": ("off",), "gpu-2": ("off", "too")}, simulated=False)
    told = diagnosis.Diagnosis("lab", False, (group,), (), ())
    (tmp_path / "doctor.json").write_text(json.dumps(told.as_json()))
    (found,) = verdicts.findings(tmp_path / "doctor.json")
    assert (found.id, found.status, found.remedy) == (check.id, "fail", check.remedy)
    assert found.lines == ["gpu-1: off", "gpu-2: off", "gpu-2: too"]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:500]), r"is cut short"),
        (lambda path: path.write_text(path.read_text().replace('"schema":1', '"schema":9')), r"has schema 9"),
        (lambda path: path.write_text("{}"), r"is no TTFT result"),
        (lambda path: path.unlink(), r"cannot be read"),
        (lambda path: (path.unlink(), path.mkdir()), r"holds no \*\.json"),
        (lambda path: path.with_name("b.json").write_bytes(path.read_bytes()), r"are the same run \(run-1\)"),
    ],
)
def test_a_file_that_cannot_be_shown_is_one_sentence(
    tmp_path: Path, spoil: Callable[[Path], Any], sentence: str
) -> None:
    path = tmp_path / "a.json"
    result.write(a_run(starts=1), path)
    spoil(path)
    with pytest.raises(KvlabError, match=sentence):
        load.load([path, *tmp_path.glob("b.json")])


@pytest.mark.parametrize("read", [verdicts.gate, verdicts.findings])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [("[1]", r"x.json (is not what|holds no)"), ("{", "x.json is not JSON"), (None, "cannot be")],
)
def test_other_input_that_is_wrong_is_one_sentence(
    tmp_path: Path, read: Callable[[Path], Any], content: str | None, sentence: str
) -> None:
    path = tmp_path / "x.json"
    if content:
        path.write_text(content)
    with pytest.raises(KvlabError, match=sentence):
        read(path)


def test_many_results_are_read_by_their_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 7):
        run = ttft_generator.result(seed=day, id=f"run-{day}", created=f"2026-01-0{day}T00:00:00Z", starts=2)
        result.write(run, tmp_path / f"{day}.json")
    monkeypatch.setattr(load, "TREND", 3)
    monkeypatch.setattr(load, "NEWEST", 2)
    monkeypatch.setattr(load, "DRAWN", 4)
    read: list[str] = []
    whole = result.read
    monkeypatch.setattr(result, "read", lambda path: read.append(path.stem) or whole(path))
    found = load.load([tmp_path])
    assert sorted(read) == ["4", "5", "6"]
    assert [run.id for run in found.runs] == [f"run-{day}" for day in range(6, 0, -1)]
    baseline = [point.run for point in found.history if point.profile == "baseline"]
    assert baseline == ["run-5", "run-5", "run-6", "run-6"]
