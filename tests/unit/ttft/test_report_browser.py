"""The report in a browser: it asks for nothing, complains of nothing, and its tables sort."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import report_browser
import ttft_generator
from report_browser import Page

from kvlab.checks import Finding
from kvlab.report import load, page
from kvlab.ttft import result

pytestmark = pytest.mark.skipif(
    report_browser.CHROMIUM is None, reason="no Chromium; apt-get install chromium, and run again"
)

COLUMN = "[...document.querySelector('#measurements table').tBodies[0].rows].map(r => r.cells[%d].innerText.trim())"
NONE = "\N{EN DASH}"
HEADS = "document.querySelectorAll('#measurements thead button')"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it: verdicts, claims, what is not proven, change points, findings."""
    folder = tmp_path_factory.mktemp("report")
    plan = {"model": "kvlab-test", "limits": {"speedup_longest_min": 2, "http_over_rdma_longest_min": 50}}
    for night in range(1, 13):
        run = ttft_generator.result(
            seed=night, created=f"2026-01-{night:02}T00:00:00Z", starts=3, hot=3, contexts=(64, 1024, 8192), plan=plan,
            slower={"s3-rdma": 1.4} if night > 6 else None,
        )  # fmt: skip
        # One column must hold a dash: no start of it has enough proven passes.
        run.passes = [
            msgspec.structs.replace(one, proven=False, reasons=["hit 0 tokens"])
            if (one.profile, one.context) == ("s3-rdma", 1024)
            else one
            for one in run.passes
        ]
        result.write(run, folder / f"{night}.json")
    given: dict[str, Any] = {
        "id": "RDMA004",
        "severity": "major",
        "status": "fail",
        "title": "PFC",
        "evidence": ("off",),
        "remedy": "Set it.",
        "source": "",
        "simulated": True,
    }
    findings = [Finding(**given), Finding(**given | {"id": "CLK001", "status": "pass"})]
    return page.write(page.build(load.load([folder]), page.Extra(findings=findings)), folder / "out")


FIGURES = """[...document.querySelectorAll('figure')].map(f => [
  f.querySelector('figcaption').innerText.trim(),
  f.querySelector('[role=img]').getAttribute('aria-label'),
  f.querySelector('svg').getBoundingClientRect().height])"""
SORTED = "[...document.querySelectorAll('#measurements thead th')].map(h => h.getAttribute('aria-sort'))"
CONTRAST = """(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (c) => c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const paper = light(rgb(getComputedStyle(document.body).backgroundColor));
  return [...document.querySelectorAll('svg text, p, td, th, figcaption, h2, figure path[style*="stroke: var(--s"]')]
    .map(e => [e, getComputedStyle(e)])
    .map(([e, s]) => light(rgb(e.localName === 'text' ? s.fill : e.localName === 'path' ? s.stroke : s.color)))
    .map(ink => (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05))
    .reduce((least, one) => Math.min(least, one), 99);
})()"""
# Each table by each of its columns, twice: the row heads, and those in order of the cells that have a value.
TABLES = """[...document.querySelectorAll('table')].map(table => {
  const value = (row, c) => row.cells[c].dataset.value ?? row.cells[c].innerText.trim();
  const order = (c) => [...table.tBodies[0].rows].map(row => value(row, c)).filter(v => v !== '' && v !== '\u2013');
  const columns = [...table.tHead.rows[0].cells].map((head, c) => {
    const rows = table.tBodies[0].rows.length;
    head.querySelector('button').click();
    const up = order(c);
    head.querySelector('button').click();
    return [up, order(c), rows === table.tBodies[0].rows.length];
  });
  return [table.caption?.innerText.trim() ?? '', columns];
})"""
PAPER = "getComputedStyle(document.body).backgroundColor"
WIDTHS = (360, 390, 768, 1280)
LOOKS = (("light", "screen"), ("dark", "screen"), ("dark", "print"))


async def _used(tab: Page) -> dict[str, Any]:
    """One visit in which all is tried; a browser takes a second to start."""
    seen: dict[str, Any] = {"figures": await tab.value(FIGURES), "before": await tab.value(COLUMN % 7)}
    await tab.value(f"{HEADS}[7].click()")
    seen["up"] = await tab.value(COLUMN % 7)
    await tab.value(f"{HEADS}[7].focus()")
    await tab.press("Enter", "\r")
    seen["down"], seen["state"] = await tab.value(COLUMN % 7), await tab.value(SORTED)
    await tab.value(f"{HEADS}[0].click()")
    seen["names"] = await tab.value(COLUMN % 0)
    seen["tables"] = await tab.value(TABLES)
    for width in WIDTHS:
        await tab.look(width=width)
        seen[f"width {width}"] = await tab.value("document.documentElement.scrollWidth")
    for scheme, media in LOOKS:
        await tab.look(width=1280, scheme=scheme, media=media)
        seen[f"{scheme} {media}"] = await tab.value(CONTRAST), await tab.value(PAPER)
    seen["pdf"] = await tab.pdf()
    return {**seen, "requests": tab.requests(), "complaints": tab.complaints()}


@pytest.fixture(scope="module")
def seen(written: Path) -> Any:
    return report_browser.use(written, _used)


def test_nothing_is_asked_for_but_the_file_and_the_console_is_empty(written: Path, seen: Any) -> None:
    assert seen["requests"] == [written.as_uri()]
    assert seen["complaints"] == []


def test_the_browser_does_report_what_is_asked_for_and_complained_of(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='missing.png'><script>console.error('x'); throw new Error('y')</script>")

    async def told(tab: Page) -> tuple[list[str], list[str]]:
        await tab.value("1")
        return tab.requests(), tab.complaints()

    requests, complaints = report_browser.use(bad, told)
    assert [Path(address).name for address in requests] == ["bad.html", "missing.png"]
    assert any("consoleAPI" in c or "'x'" in c for c in complaints)
    assert any("Error: y" in c for c in complaints)


def test_each_figure_has_a_caption_and_alternative_text(seen: Any) -> None:
    assert len(seen["figures"]) == 6
    for caption, alternative, height in seen["figures"]:
        assert len(caption) > 40
        assert len(alternative) > 40
        assert height > 150


def test_a_table_sorts_both_ways_by_click_and_by_key_with_gaps_last(seen: Any) -> None:
    before, up, down = seen["before"], seen["up"], seen["down"]
    numbers = [float(text.replace(",", "")) for text in up if text != NONE]
    assert len(numbers) == len(before) - 2
    assert before.count(NONE) == 2
    assert numbers == sorted(numbers)
    assert numbers != sorted(numbers, key=str), "an order of text must not pass for one of numbers"
    assert up[-2:] == down[-2:] == [NONE, NONE]
    assert down[:-2] == up[:-2][::-1]
    assert seen["state"] == ["none"] * 7 + ["descending"] + ["none"] * 3
    assert seen["names"] == sorted(seen["names"])


def test_every_table_has_a_caption_and_sorts_by_every_column(seen: Any) -> None:
    captions = [caption for caption, _ in seen["tables"]]
    begins = (
        "Verdicts",
        "The source",
        "TTFT of proven",
        "Passes and starts",
        "Runs",
        "Environment",
        "Findings",
    )
    assert len(captions) == len(begins)
    assert all(text.startswith(begin) for text, begin in zip(captions, begins, strict=True))
    for caption, columns in seen["tables"]:
        for up, down, whole in columns:
            assert whole, caption
            numbers = [_number(text) for text in up]
            assert down == up[::-1] or sorted(down) == sorted(up), caption
            if numbers and None not in numbers:
                assert numbers == sorted(numbers), caption
                assert [_number(text) for text in down] == numbers[::-1], caption


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def test_change_points_are_told_in_figure_and_text(seen: Any, written: Path) -> None:
    caption, alternative, _ = seen["figures"][-1]
    assert "change points" in caption
    assert "s3-rdma: 36 starts" in alternative
    assert "from run-7 on" in alternative
    assert alternative.count("changed by") == 1, "only one profile became slower"
    assert "from run-7 on" in written.read_text().partition("</figure>")[2].rpartition("<caption>")[0]


def test_the_page_prints_whole(seen: Any) -> None:
    assert seen["pdf"].startswith(b"%PDF-")
    assert seen["pdf"].count(b"/Type /Page\n") > 1


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(seen: Any, width: int) -> None:
    assert width - 20 <= seen[f"width {width}"] <= width  # a scroll bar takes its part


@pytest.mark.parametrize(("scheme", "media"), LOOKS)
def test_text_and_lines_stand_out_from_the_paper(seen: Any, scheme: str, media: str) -> None:
    least, paper = seen[f"{scheme} {media}"]
    assert least >= 4.5  # WCAG 2.2, 1.4.3: text
    assert (paper == "rgb(20, 23, 27)") == (scheme == "dark" and media == "screen")
