"""JUnit results of several hosts and runs as one: each test once, with its worst verdict and that one's evidence.

A test is the same test in two files when host (property `host`), class and name agree. A skip is worse than a pass:
what one run proved and another passed over is not proven by both. The evidence (property `finding.<check id>`) of the
run with the worst verdict is kept; `runs` counts the files that hold the test, `verdicts` names what each said.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from junitparser import (
    Error,
    Failure,
    JUnitXml,
    JUnitXmlError,
    Properties,
    Property,
    Skipped,
    TestCase,
    TestSuite,
)

from kvlab.errors import KvlabError

Verdict = Literal["pass", "skip", "fail", "error"]
BADNESS: tuple[Verdict, ...] = ("pass", "skip", "fail", "error")
_FINDING = "finding."


@dataclass(frozen=True)
class Result:
    """One test in one file. `started` is when it began (None: the file does not say); `seconds` how long it took."""

    host: str
    classname: str
    name: str
    verdict: Verdict
    reason: str
    seconds: float
    started: datetime | None
    properties: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.host, self.classname, self.name

    @property
    def simulated(self) -> bool:
        """Whether the lab of the test said that it is simulated."""
        return ("simulated", "true") in self.properties

    def findings(self) -> list[dict[str, Any]]:
        """The findings that did not pass, as the checks gave them."""
        values = [json.loads(value) for name, value in self.properties if name.startswith(_FINDING)]
        return [finding for finding in values if finding["status"] != "pass"]

    def __str__(self) -> str:
        return f"{self.host}: {self.name}" if self.host else self.name


def read(file: Path) -> list[Result]:
    """The tests of a JUnit file in the order in which they ran.

    Raises KvlabError when it cannot be read, is no JUnit file, or holds no test (an aborted run must not pass for a
    green one).
    """
    try:
        document = JUnitXml.fromfile(str(file))
        suites = [document] if isinstance(document, TestSuite) else list(document)
        found = [result for suite in suites for result in _of_suite(suite)]
    except OSError as error:
        raise KvlabError(f"{file} cannot be read: {error.strerror}.") from error
    except (ET.ParseError, ValueError, TypeError) as error:
        raise KvlabError(
            f"{file} is no whole JUnit file ({error}); was its run cut off? Repeat it."
        ) from error
    except JUnitXmlError as error:
        raise KvlabError(f"{file} is no JUnit file ({error}); give what pytest --junitxml wrote.") from error
    if not found:
        raise KvlabError(f"{file} holds no test: nothing was proved in that run.")
    return found


def _of_suite(suite: TestSuite) -> Iterable[Result]:
    clock = _time(suite.timestamp)
    for case in suite:
        if not isinstance(case, TestCase):
            yield from _of_suite(case)
            continue
        box = case.child(Properties)
        properties = tuple((str(p.name), str(p.value)) for p in box) if box is not None else ()
        verdict, reason = _verdict(case)
        seconds = float(case.time or 0)
        given = dict(properties)
        said = tuple(word for word in given.get("verdicts", verdict).split() if word in BADNESS)
        yield Result(
            host=given.get("host", ""),
            classname=case.classname or "",
            name=case.name or "",
            verdict=verdict,
            reason=reason,
            seconds=seconds,
            started=_time(given.get("started")) or clock,
            properties=properties,
            verdicts=said,
        )
        clock = clock + timedelta(seconds=seconds) if clock else None


def _verdict(case: TestCase) -> tuple[Verdict, str]:
    """The worst of a case's results and its text: pytest gives two when a teardown fails, too."""
    worst: tuple[Verdict, str] = ("pass", "")
    kinds: dict[type, Verdict] = {Skipped: "skip", Failure: "fail", Error: "error"}
    for result in case.result:
        verdict = kinds.get(type(result), "error")
        if BADNESS.index(verdict) > BADNESS.index(worst[0]):
            worst = verdict, str(result.message or result.text or "").strip()
    return worst


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def merge(runs: Iterable[Sequence[Result]]) -> list[Result]:
    """Each test once, in the order in which they began; see the module's text for what is kept."""
    merged: dict[tuple[str, str, str], Result] = {}
    for result in (one for run in runs for one in run):
        before = merged.get(result.identity)
        if before is None:
            merged[result.identity] = result
            continue
        worse = result if BADNESS.index(result.verdict) > BADNESS.index(before.verdict) else before
        merged[result.identity] = replace(worse, verdicts=(*before.verdicts, *result.verdicts))
    return sorted(merged.values(), key=_moment)  # stable: what has no time keeps its order, at the end


def _moment(result: Result) -> datetime:
    return result.started or datetime.max.replace(tzinfo=UTC)


def write(results: Sequence[Result], file: Path) -> None:
    """Write the results as JUnit, a suite for each host."""
    document = JUnitXml("kvlab")
    for host in dict.fromkeys(result.host for result in results):
        suite = TestSuite(host or "kvlab")
        if host:
            suite.hostname = host
        suite.add_property("simulated", str(any(r.simulated for r in results if r.host == host)).lower())
        for result in results:
            if result.host == host:
                suite.add_testcase(_case(result))
        document.add_testsuite(suite)
    document.update_statistics()
    try:
        document.write(str(file), pretty=True)
    except OSError as error:
        raise KvlabError(f"{file} cannot be written: {error.strerror}.") from error


def _case(result: Result) -> TestCase:
    case = TestCase(result.name, classname=result.classname, time=result.seconds)
    kept = {name: value for name, value in result.properties if name not in ("runs", "verdicts", "started")}
    kept |= {"runs": str(len(result.verdicts)), "verdicts": " ".join(result.verdicts)}
    if result.started:
        kept["started"] = result.started.isoformat()
    box = Properties()
    for name, value in kept.items():
        box.add_property(Property(name, value))
    case.append(box)
    kind = {"skip": Skipped, "fail": Failure, "error": Error}.get(result.verdict)
    if kind:
        outcome = kind(result.reason.splitlines()[0] if result.reason else "")
        outcome.text = result.reason
        case.result = [outcome]
    return case


def summary(results: Sequence[Result]) -> list[str]:
    """What to read first: the counts, what failed first and why, then the other failures and the skips by reason."""
    count = {verdict: sum(r.verdict == verdict for r in results) for verdict in BADNESS}
    label = " [simulated]" if any(r.simulated for r in results) else ""
    hosts = len({r.host for r in results})
    lines = [
        f"{len(results)} tests on {hosts} host{'s' * (hosts != 1)}{label}: {count['pass']} passed, "
        f"{count['fail']} failed, {count['error']} errors, {count['skip']} skipped"
    ]
    bad = sorted((r for r in results if r.verdict in ("fail", "error")), key=_moment)
    if bad:
        lines += ["", f"First, {_when(bad[0])}: {bad[0]}", *_why(bad[0])]
    if len(bad) > 1:
        lines += ["", "Then:", *(f"  {_when(r)}  {r}: {_headline(r)}" for r in bad[1:])]
    unsteady = [r for r in results if len(set(r.verdicts)) > 1]
    if unsteady:
        lines += ["", "Not the same in every run:", *(f"  {r}: {', '.join(r.verdicts)}" for r in unsteady)]
    reasons: dict[str, int] = {}
    for skipped in (r for r in results if r.verdict == "skip"):
        reasons[_headline(skipped)] = reasons.get(_headline(skipped), 0) + 1
    if reasons:
        lines += ["", "Skipped:", *(f"  {number} x {reason}" for reason, number in reasons.items())]
    return lines


def _when(result: Result) -> str:
    return result.started.strftime("%Y-%m-%d %H:%M:%S") if result.started else "at a time that no file names"


def _headline(result: Result) -> str:
    return next(iter(result.reason.splitlines()), "no reason given")


def _why(result: Result) -> list[str]:
    """The findings that did not pass with their evidence and remedy; without any, what pytest said."""
    lines = []
    for finding in result.findings():
        lines.append(f"  {finding['id']} {finding['status']}: {finding['title']}")
        lines += [f"    - {evidence}" for evidence in finding["evidence"]]
        lines += [f"    remedy: {finding['remedy']}"] if finding["remedy"] else []
    return lines or [f"  {line}" for line in result.reason.splitlines()[:12]]
