"""How a figure looks, and its two forms: SVG inside the page, PNG beside it.

In the SVG each colour is a variable of the page's style sheet, so that one drawing serves light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

INK, MUTED, GRID, PAPER, FLAG = "#1b1f24", "#57606b", "#d9dde2", "#fdfdfc", "#9a3412"
SERIES = {"baseline": "#4b5563", "s3-http": "#b45309", "s3-rdma": "#1d5fc4", "file": "#0f7a5a"}
OTHER = "#7c3f9e"
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    FLAG: "flag",
    OTHER: "other",
    **{colour: name for name, colour in SERIES.items()},
}
"""Name of the style sheet's variable for each colour that a figure may use."""

MARKERS = {"baseline": "o", "s3-http": "s", "s3-rdma": "^", "file": "D"}
SIZE = (5.4, 3.5)
"""Inches. Narrow, so that the text is still read when the figure is as wide as a phone."""
DPI = 220


@dataclass(frozen=True)
class Picture:
    """A figure for the page. `alt` says in words what it shows."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str
    png: bytes


def style() -> AbstractContextManager[None]:
    """The settings under which figures are drawn and saved. Names from a result are text, never formulas."""
    return mpl.rc_context(
        {
            "font.size": 9,
            "font.family": "DejaVu Sans",
            "text.parse_math": False,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": MUTED,
            "axes.facecolor": "none",
            "axes.linewidth": 0.7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.frameon": False,
            "legend.fontsize": 8.5,
            "lines.linewidth": 1.7,
            "lines.markersize": 4,
            "svg.fonttype": "none",
            "svg.hashsalt": "kvlab",
        }
    )


def axes(xlabel: str, ylabel: str, simulated: bool) -> tuple[Figure, Axes]:
    """An empty figure; `simulated` is written into it, so that the PNG alone says so too."""
    figure = Figure(figsize=SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    if simulated:
        figure.suptitle(
            "simulated: shapes only, no performance", color=FLAG, fontsize=8.5, x=0.99, ha="right"
        )
    return figure, axis


def colour(profile: str) -> str:
    return SERIES.get(profile, OTHER)


def marker(profile: str) -> str:
    return MARKERS.get(profile, "v")


def contexts(axis: Axes, values: Iterable[int]) -> None:
    """A logarithmic axis of tokens, with a tick at each measured context that has room for its number."""
    axis.set_xscale("log", base=2)
    found = sorted(set(values))
    axis.xaxis.set_major_locator(FixedLocator(_apart(found)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if found:
        axis.set_xlim(found[0] / 1.25, found[-1] * 1.4)


def logarithmic(axis: Axes, low: float, high: float) -> None:
    """A logarithmic y axis for values from `low` to `high`, its ticks in plain numbers."""
    axis.set_yscale("log")
    axis.set_ylim(low / 1.35, high * 1.35)
    decades = high / low
    steps = (1, 1.5, 2, 3, 5, 7) if decades < 10 else (1, 2, 5) if decades < 300 else (1,)
    axis.yaxis.set_major_locator(LogLocator(subs=steps))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.yaxis.set_minor_locator(NullLocator())


def legend(axis: Axes) -> None:
    """The names of the series above the axes, in a row."""
    handles, names = axis.get_legend_handles_labels()
    if names:
        axis.legend(
            handles, names, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, borderaxespad=0.1,
            columnspacing=1.1, handletextpad=0.4, handlelength=1.4,
        )  # fmt: skip


def picture(figure: Figure, name: str, title: str, caption: str, alt: str) -> Picture:
    """Both forms of a figure; call it within `style()`."""
    png, svg = io.BytesIO(), io.StringIO()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # what was laid out once serves both
    # By the canvases themselves: savefig draws a figure twice, to lay it out again.
    figure.set_dpi(DPI)
    figure.set_facecolor(PAPER)
    FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
    figure.set_facecolor("none")
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    FigureCanvasSVG(figure).print_svg(svg, metadata=nothing)  # type: ignore[no-untyped-call]
    return Picture(name, title, caption, alt, _inline(svg.getvalue(), name), png.getvalue())


def _apart(values: Sequence[int], factor: float = 1.6) -> list[int]:
    """Those values that are at least a factor from the one kept before."""
    kept: list[int] = []
    for value in values:
        if not kept or value / kept[-1] >= factor:
            kept.append(value)
    return kept


def _inline(svg: str, name: str) -> str:
    """The <svg> element alone: ids made the figure's own, colours made variables, size left to the page."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, count=1, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", element)
    element = re.sub(r'<svg ([^>]*?)\b(?:width|height)="[^"]*" ?', r"<svg \1", element, count=1)
    element = re.sub(r'<svg ([^>]*?)\b(?:width|height)="[^"]*" ?', r"<svg \1", element, count=1)
    for hexadecimal, variable in VARIABLES.items():
        element = element.replace(hexadecimal, f"var(--{variable}, {hexadecimal})")
    return element.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
