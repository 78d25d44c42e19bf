"""Time and memory against the number of poses, both on log scales."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ...workflows.drawing import GRID, INK, canvas, legend
from ..report.document import Figure
from .cases import PASSES
from .contestants import SDPA
from .results import Row, ends, rows, short

# Colour and marker: either alone tells contestants apart.
COLOURS = (INK, "#0072B2", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#E69F00", "#882255")
MARKERS = "so^vDXpP"
COLUMNS = 3  # panels side by side, at most: more cannot be read on a page
KINDS = (("time", "Time", "ms", "seconds", 1e3), ("memory", "Peak memory", "MB", "memory", 1e-6))


def figures(found: dict[str, Any]) -> list[Figure]:
    """Time and memory of the first and the last pass, of those that were measured."""
    drawn = []
    several = len({cell["n"] for cell in found["cells"]}) > 1
    against = " against the number of poses, log scales" if several else ", log scale"
    has_memory = any("memory" in r for cell in found["cells"] for r in cell["records"])
    for name, what, unit, column, factor in KINDS[: 1 + has_memory]:
        for which in ends(found):
            caption = f"{what} of a call: {PASSES[which]}"
            value = partial(_value, column=column, factor=factor, which=which)
            draw = partial(_draw, found, caption, unit, value)
            file = name if which == "forward" else f"{name}-backward"
            drawn.append(Figure(file, f"{caption}, {unit}{against}.", draw))
    return drawn


def _value(row: Row, column: str, factor: float, which: str) -> float | None:
    value = getattr(row, column).get(row.own(which))
    return value * factor if value else None


def _draw(
    found: dict[str, Any], caption: str, unit: str, value: Callable[[Row], float | None]
) -> Canvas:
    """A panel for each group and head width; groups of one width stand together."""
    panels: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in sorted(rows(found), key=lambda row: row.cell["width"]):
        if (number := value(row)) is not None:
            lines = panels.setdefault(row.title, {})
            lines.setdefault(row.label, []).append((row.cell["n"], number))
    groups = len({cell["group"] for cell in found["cells"]})
    # A number of columns that divides the groups: then each width begins a row.
    columns = next((c for c in range(COLUMNS, 1, -1) if groups % c == 0), min(groups, COLUMNS))
    height = max(1, ceil(len(panels) / columns))
    figure = canvas(max(4.4 * columns, 8), 3.7 * height + 1.6)
    axes = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True).flatten()
    looks: dict[str, dict[str, Any]] = {}
    for axis, (title, lines) in zip(axes, panels.items(), strict=False):
        axis.set_title(title)
        axis.grid(color=GRID)
        for i, contestant in enumerate(found["contestants"]):
            if (label := contestant["label"]) in lines:
                dashes = "--" if contestant["name"] == SDPA else "-"
                look = {"color": COLOURS[i % 8], "marker": MARKERS[i % 8], "ls": dashes}
                looks[label] = {**look, "ms": 8, "lw": 2.5}
                axis.plot(*zip(*lines[label], strict=True), **looks[label])
    _log_scales(axes[0], sorted({cell["n"] for cell in found["cells"]}))
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis in axes[::columns]:
        axis.set_ylabel(unit)
    for axis in axes[max(len(panels) - columns, 0) : len(panels)]:  # the lowest of each column
        axis.set_xlabel("N")
        axis.tick_params(labelbottom=True)
    legend(figure, looks, 2 if columns < COLUMNS else 4)
    figure.suptitle(caption, fontsize=17)
    return figure


def _log_scales(axis: Any, sizes: list[int]) -> None:
    """With ticks at the sizes, and at 1, 2 and 5 or at powers of ten."""
    axis.set(xscale="log", yscale="log")
    axis.margins(x=0.12)
    axis.set_xticks(sizes, [f"{n}" for n in sizes])
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 1000 * low else (1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: short(y, 1)))
    for each in (axis.xaxis, axis.yaxis):
        each.set_minor_locator(NullLocator())
