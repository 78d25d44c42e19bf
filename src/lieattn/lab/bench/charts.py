"""Time and memory against the number of poses, both on log scales."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from ...workflows.drawing import INK, Canvas, canvas, style
from ..report.document import Figure
from .cases import PASSES
from .contestants import SDPA
from .results import Row, cell_title, passes, rows, short

# Colour and marker: either alone tells them apart.
LOOKS = {
    SDPA: (INK, "s"),
    "native": ("#0072B2", "o"),
    "tiled": ("#009E73", "^"),
    "triton": ("#882255", "P"),
    "reference": ("#56B4E9", "v"),
    "literal": ("#D55E00", "D"),
    "invariant-point-attention": ("#CC79A7", "X"),
    "egnn-pytorch": ("#E69F00", "p"),
}
OTHER = ("#7f7f7f", "h")
COLUMNS = 3  # panels side by side, at most: more cannot be read on a page
GRID = "#e5e8ec"
Panel = dict[str, list[tuple[int, float]]]  # N and number, by contestant


def figures(found: dict[str, Any]) -> list[Figure]:
    """Time and memory of the first and the last pass, of those that were measured."""
    drawn = []
    measured = passes(found)
    several = len({cell["n"] for cell in found["cells"]}) > 1
    against = " against the number of poses, log scales" if several else ", log scale"
    kinds = [("time", "Time", "ms", _milliseconds)]
    if any("memory" in r for cell in found["cells"] for r in cell["records"]):
        kinds.append(("memory", "Peak memory", "MB", _megabytes))
    for name, what, unit, number in kinds:
        for which in dict.fromkeys((measured[0], measured[-1])):
            caption = f"{what} of a call: {PASSES[which]}"
            full = f"{caption}, {unit}{against}."
            draw = partial(_draw, found, caption, unit, partial(number, which=which))
            drawn.append(Figure(name if which == "forward" else f"{name}-backward", full, draw))
    return drawn


def _milliseconds(row: Row, which: str) -> float | None:
    seconds = row.seconds.get(_pass(row, which))
    return None if seconds is None else seconds * 1e3


def _megabytes(row: Row, which: str) -> float | None:
    size = row.size(which)
    return size / 1e6 if size else None


def _pass(row: Row, which: str) -> str:
    """SDPA has no poses: its backward pass stands for both."""
    return "backward" if which == "poses" and row.name == SDPA else which


def _draw(found: dict[str, Any], caption: str, unit: str, number: Any) -> Canvas:
    panels = _panels(found, number)
    points = [point for panel in panels.values() for line in panel.values() for point in line]
    if not points:
        return canvas(1, 1)
    sizes = sorted({n for n, _ in points})
    listed = {n for panel in panels.values() for n in panel}
    labels = {c["name"]: c["label"] for c in found["contestants"] if c["name"] in listed}
    groups = len({cell["group"] for cell in found["cells"]})
    # As many that widths begin a row of their own, if there are.
    columns = next((c for c in range(COLUMNS, 1, -1) if groups % c == 0), min(groups, COLUMNS))
    rows_ = -(-len(panels) // columns)
    single = len(sizes) == 1
    with style():
        height = 0.5 * len(labels) + 1.1 if single else 3.7
        figure = canvas(max(4.4 * columns, 8), height * rows_ + (0.8 if single else 1.6))
        axes = figure.subplots(rows_, columns, squeeze=False, sharex=True, sharey=True)
        for axis, (title, panel) in zip(axes.flat, panels.items(), strict=False):
            axis.set_title(title)
            (_dots if single else _lines)(axis, panel, labels)
        first = axes[0, 0]
        _scale(first.xaxis if single else first.yaxis, [value for _, value in points])
        if single:
            caption = f"{caption}, N = {sizes[0]}"
            _label_dots(first, labels)
        else:
            _label_lines(figure, axes, sizes, unit, labels)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        for axis in axes.flat[max(len(panels) - columns, 0) : len(panels)]:  # the lowest there are
            axis.set_xlabel(unit if single else "N")
            axis.tick_params(labelbottom=True)
        figure.suptitle(caption, fontsize=17)
        return figure


def _panels(found: dict[str, Any], number: Any) -> dict[str, Panel]:
    """Lines by group and head width; groups of one width stand together."""
    panels: dict[str, Panel] = {}
    for cell in sorted(found["cells"], key=lambda cell: cell["width"]):
        for row in rows(found, cell):
            if (value := number(row)) is not None:
                panel = panels.setdefault(cell_title(cell), {})
                panel.setdefault(row.name, []).append((cell["n"], value))
    return panels


def _lines(axis: Any, panel: Panel, labels: dict[str, str]) -> None:
    for name, points in panel.items():
        colour, marker = LOOKS.get(name, OTHER)
        plain = {"ls": "--", "zorder": 3} if name == SDPA else {}
        axis.plot(*zip(*points, strict=True), color=colour, marker=marker, ms=8, lw=2.5, **plain)
    axis.grid(color=GRID)
    axis.set_axisbelow(True)


def _dots(axis: Any, panel: Panel, labels: dict[str, str]) -> None:
    """One size is no line: contestants below each other, each with its number."""
    heights = {name: height for height, name in enumerate(reversed(labels))}
    for name, [(_, value)] in panel.items():
        colour, marker = LOOKS.get(name, OTHER)
        axis.plot(value, heights[name], color=colour, marker=marker, ms=11)
        place = {"xytext": (10, 0), "textcoords": "offset points", "va": "center"}
        axis.annotate(short(value, 2), (value, heights[name]), **place)
    axis.grid(color=GRID)
    axis.set_axisbelow(True)


def _label_lines(
    figure: Any, axes: Any, sizes: list[int], unit: str, labels: dict[str, str]
) -> None:
    first = axes[0, 0]  # which shares its axes with all
    first.set_xscale("log")
    first.margins(x=0.12)
    first.xaxis.set_major_locator(FixedLocator(sizes))
    first.xaxis.set_minor_locator(NullLocator())
    first.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    for line in axes:
        line[0].set_ylabel(unit)
    handles = [_handle(name, label) for name, label in labels.items()]
    across = min(len(handles), 2 if figure.get_figwidth() < 9 else 4)
    figure.legend(handles=handles, loc="outside lower center", ncols=across)


def _label_dots(first: Any, labels: dict[str, str]) -> None:
    first.margins(y=0.15)
    first.set_yticks(range(len(labels)), list(labels.values())[::-1])
    low, high = first.get_xlim()
    first.set_xlim(low, high * (high / low) ** 0.3)  # room for the last number


def _scale(axis: Any, values: list[float]) -> None:
    """A log scale that begins and ends around the values, with ticks that say what it is."""
    low, high = min(values) / 1.5, max(values) * 1.5
    steps = (1,) if high > 300 * low else (1, 2, 5)
    every = [step * 10.0**power for power in range(-6, 9) for step in steps]
    inside = [tick for tick in every if low <= tick <= high]
    while len(inside) < 2:
        low, high = low / 1.5, high * 1.5
        inside = [tick for tick in every if low <= tick <= high]
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(FixedLocator(inside))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda y, _: short(y, 1)))
    axis.axes.set(**{f"{axis.axis_name}lim": (low, high)})


def _handle(name: str, label: str) -> Line2D:
    colour, marker = LOOKS.get(name, OTHER)
    dashes = "--" if name == SDPA else "-"
    return Line2D([], [], color=colour, marker=marker, ms=8, lw=2.5, ls=dashes, label=label)
