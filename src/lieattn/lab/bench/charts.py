"""Time and memory against the number of poses, both on log scales."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from ...groups import get_group
from ..report.document import Figure
from ..report.style import INK, canvas, style, to_svg
from .cases import PASSES
from .contestants import SDPA
from .results import Row, passes, rows, short

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
PANELS = ("group", "width")
GRID = "#e5e8ec"


def figures(found: dict[str, Any]) -> list[Figure]:
    """`time`, `backward` if there is one, and `memory`, of those that have something to show."""
    measured = passes(found)
    drawn = []
    for name, which in (("time", "forward"), ("backward", measured[-1])):
        if name == "time" or which != "forward":
            caption = f"Time of a call: {PASSES[which]}"
            drawn.append(_figure(found, name, caption, "ms", partial(_milliseconds, which=which)))
    if any("memory" in r for cell in found["cells"] for r in cell["records"]):
        caption = f"Peak memory of a call: {PASSES[measured[-1]]}"
        size = partial(_megabytes, which=measured[-1])
        drawn.append(_figure(found, "memory", caption, "MB", size))
    return drawn


def _milliseconds(row: Row, which: str) -> float | None:
    seconds = row.seconds.get(which, _plain(row, row.seconds, which))
    return None if seconds is None else seconds * 1e3


def _megabytes(row: Row, which: str) -> float | None:
    size = row.memory.get(which, _plain(row, row.memory, which))
    return size / 1e6 if size else None


def _plain(row: Row, numbers: dict[str, Any], which: str) -> Any:
    """SDPA has no poses: its backward pass stands for both."""
    return numbers.get("backward") if which == "poses" and row.name == SDPA else None


def _figure(found: dict[str, Any], name: str, caption: str, unit: str, number: Any) -> Figure:
    full = f"{caption}, {unit} against the number of poses, log scales."
    return Figure(name, full, partial(_draw, found, caption, unit, number))


def _draw(found: dict[str, Any], caption: str, unit: str, number: Any) -> bytes:
    groups, widths = (list(dict.fromkeys(c[key] for c in found["cells"])) for key in PANELS)
    columns = len(groups)
    with style():
        figure = canvas(max(4.2 * columns, 7.5), 3.7 * len(widths) + 1.6)
        axes = figure.subplots(len(widths), columns, squeeze=False, sharex=True, sharey=True)
        shown: set[str] = set()
        for i, width in enumerate(widths):
            for j, group in enumerate(groups):
                cells = [c for c in found["cells"] if (c["group"], c["width"]) == (group, width)]
                shown |= _panel(axes[i, j], found, cells, number)
                axes[i, j].set_title(f"{get_group(group)}, head width {width}")
            axes[i, 0].set_ylabel(unit)
        for axis in axes[-1]:
            axis.set_xlabel("N")
        handles = [_line(c) for c in found["contestants"] if c["name"] in shown]
        columns = min(len(handles), 2 if figure.get_figwidth() < 9 else 4)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)
        figure.suptitle(caption, fontsize=17)
        return to_svg(figure)


def _panel(axis: Any, found: dict[str, Any], cells: list[dict[str, Any]], number: Any) -> set[str]:
    """Draw the lines of a group and width; names of those that are there."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for cell in cells:
        for row in rows(found, cell):
            if (value := number(row)) is not None:
                lines.setdefault(row.name, []).append((cell["n"], value))
    for name, points in lines.items():
        colour, marker = LOOKS.get(name, OTHER)
        plain = {"ls": "--", "zorder": 3} if name == SDPA else {}
        axis.plot(*zip(*points, strict=True), color=colour, marker=marker, ms=8, lw=2.5, **plain)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(FixedLocator([cell["n"] for cell in cells]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    _label_heights(axis, [y for points in lines.values() for _, y in points])
    axis.margins(x=0.12)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: short(y, 1)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.grid(color=GRID)
    axis.set_axisbelow(True)
    return set(lines)


def _label_heights(axis: Any, values: list[float]) -> None:
    """Powers of ten; where there are too few of them to read a height, 2 and 5 too."""
    wide = bool(values) and max(values) > 300 * min(values)
    axis.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))


def _line(contestant: dict[str, str]) -> Line2D:
    name, label = contestant["name"], contestant["label"]
    colour, marker = LOOKS.get(name, OTHER)
    dashes = "--" if name == SDPA else "-"
    return Line2D([], [], color=colour, marker=marker, ms=8, lw=2.5, ls=dashes, label=label)
