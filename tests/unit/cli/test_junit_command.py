"""kvlab junit: joined results keep the worst verdict and say what failed first and why."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from click.testing import CliRunner, Result

from kvlab.cli import kvlab

FINDING = {
    "id": "PATH002",
    "status": "fail",
    "title": "The payload travelled by the path that the profile promises",
    "evidence": ["PUT nixl-1MiB -> 200: 0 bytes by RDMA, 1048576 in the body"],
    "remedy": "accelerated 'true'",
}


def case(name: str, *, host: str = "node1", body: str = "", seconds: float = 1, **properties: str) -> str:
    given = {"host": host, "simulated": "true", **properties}
    lines = [f"<property name={quoteattr(k)} value={quoteattr(v)}/>" for k, v in given.items()]
    return (
        f'<testcase classname="t" name={quoteattr(name)} time="{seconds}">'
        f"<properties>{''.join(lines)}</properties>{body}</testcase>"
    )


def failure(text: str, kind: str = "failure") -> str:
    return f"<{kind} message={quoteattr(text)}>{text}</{kind}>"


def junit_file(folder: Path, name: str, *cases: str, began: str = "2026-12-02T10:00:00+00:00") -> str:
    suite = f'<testsuite name="pytest" tests="{len(cases)}" timestamp="{began}">{"".join(cases)}</testsuite>'
    (folder / name).write_text(f"<testsuites>{suite}</testsuites>")
    return str(folder / name)


def run(*words: str) -> Result:
    return CliRunner().invoke(kvlab, ["junit", *words], standalone_mode=False)


def status(result: Result) -> int:
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        (("", failure("no")), "fail"),
        ((failure("no"), failure("broke", "error")), "error"),
        (("", failure("no GPU", "skipped")), "skip"),
        ((failure("no"), failure("no GPU", "skipped"), ""), "fail"),
    ],
)
def test_of_several_runs_the_worst_verdict_is_kept(
    tmp_path: Path, verdicts: tuple[str, ...], worst: str
) -> None:
    files = [junit_file(tmp_path, f"{i}.xml", case("a", body=body)) for i, body in enumerate(verdicts)]
    out = tmp_path / "all.xml"
    assert status(run("merge", *files, "-o", str(out))) == (1 if worst in ("fail", "error") else 0)
    from kvlab import junit

    (result,) = junit.read(out)
    assert result.verdict == worst
    assert len(result.verdicts) == len(verdicts)


def test_the_same_test_on_two_hosts_is_two_results(tmp_path: Path) -> None:
    one = junit_file(tmp_path, "1.xml", case("a"))
    two = junit_file(tmp_path, "2.xml", case("a", host="node2", body=failure("no")))
    said = run("summary", one, two)
    assert status(said) == 1
    assert "2 tests on 2 hosts [simulated]: 1 passed, 1 failed" in said.output
    assert "node2: a" in said.output


def test_what_failed_first_by_time_is_told_first_with_its_evidence(tmp_path: Path) -> None:
    finding = json.dumps(FINDING)
    late = junit_file(
        tmp_path,
        "late.xml",
        case("late", body=failure("later")),
        began="2026-12-02T11:00:00+00:00",
    )
    early = junit_file(
        tmp_path,
        "early.xml",
        case("good", seconds=60),
        case("early", body=failure("PATH002 fail"), **{"finding.PATH002": finding}),
    )
    lines = run("summary", late, early).output.splitlines()
    assert lines[2] == "First, 2026-12-02 10:01:00: node1: early"
    assert lines[3].strip() == "PATH002 fail: The payload travelled by the path that the profile promises"
    assert "1048576 in the body" in lines[4]
    assert "remedy" in lines[5]
    assert any(line.endswith("node1: late: later") for line in lines[6:])


def test_merging_what_was_merged_changes_no_verdict_time_or_evidence(tmp_path: Path) -> None:
    from kvlab import junit

    finding = json.dumps(FINDING)
    one = junit_file(
        tmp_path, "1.xml", case("a", body=failure("x"), **{"finding.PATH002": finding}), case("b")
    )
    two = junit_file(tmp_path, "2.xml", case("a"), case("b"), began="2026-12-02T12:00:00+00:00")
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    run("merge", one, two, "-o", str(first))
    run("merge", str(first), "-o", str(second))
    was, now = junit.read(first), junit.read(second)
    assert [(r.identity, r.verdict, r.started, r.verdicts, r.findings()) for r in was] == [
        (r.identity, r.verdict, r.started, r.verdicts, r.findings()) for r in now
    ]
    assert was[0].verdicts == ("fail", "pass")
    assert was[0].findings() == [FINDING]


def test_skips_are_counted_by_reason_and_unsteady_tests_are_named(tmp_path: Path) -> None:
    gpu = failure("needs an NVIDIA GPU", "skipped")
    one = junit_file(tmp_path, "1.xml", case("a", body=gpu), case("b", body=gpu), case("c"))
    two = junit_file(tmp_path, "2.xml", case("c", body=failure("no")))
    said = run("summary", one, two).output
    assert "2 x needs an NVIDIA GPU" in said
    assert "node1: c: pass, fail" in said


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<testsuites><testsuite name='pytest'", "is no whole JUnit file"),
        ("<html/>", "is no JUnit file"),
        ("<testsuites><testsuite name='pytest'/></testsuites>", "holds no test"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_proves_nothing_is_refused_in_one_sentence(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    file = tmp_path / "x.xml"
    if content is not None:
        file.write_text(content)
    from kvlab.errors import KvlabError

    result = run("summary", str(file))
    assert isinstance(result.exception, KvlabError)
    assert sentence in str(result.exception)
