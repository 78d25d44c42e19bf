"""Pictures of real data: errors of every method, all together and block by block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...groups import get_group
from ...workflows.style import COLOURS, INK, canvas, style, to_svg
from ..report.document import Figure
from .results import Row, groups_of, in_order, rows_of

_COLOURS = {
    **COLOURS,
    "G polar": "#56B4E9",
    "A with invariants": "#F5B87A",
    "IPA": "#CC79A7",
    "alike": "#7d8794",
    "nearest": "#a9b1bd",
    "geodesic": "#5d6673",
}


def overview(found: dict[str, Any]) -> Figure:
    """All groups and methods in one picture."""
    caption = (
        "Error of hidden poses of the test part over that of geodesic interpolation (the line), a "
        "mean over blocks, log scales: less is better. Dots are seeds, bars their mean."
    )
    return Figure("realdata", caption, partial(_draw_overview, found))


def by_block(found: dict[str, Any]) -> Figure:
    """The same, block by block."""
    caption = (
        "The same block by block: mean error over that of geodesic interpolation, log scale, a "
        "mean over seeds."
    )
    return Figure("realdata-blocks", caption, partial(_draw_blocks, found))


def _draw_overview(found: dict[str, Any]) -> bytes:
    groups = groups_of(found)
    with style():
        picture, axes = _panels(len(groups))
        for axis, group in zip(axes, groups, strict=True):
            own = _shown(found, group)
            for x, (method, rows) in enumerate(own.items()):
                _dots(axis, x, [row.over for row in rows], _COLOURS[method])
            axis.set_title(str(get_group(group)))
            axis.set_xticks(range(len(own)), [x.replace(" ", "\n") for x in own], fontsize=12)
            axis.set_xlim(-0.7, len(own) - 0.3)
            _ratios(axis)
        _label(axes)
        return to_svg(picture)


def _draw_blocks(found: dict[str, Any]) -> bytes:
    groups = groups_of(found)
    with style():
        picture, axes = _panels(len(groups))
        for axis, group in zip(axes, groups, strict=True):
            blocks = [block.name for block in get_group(group).blocks]
            rows = rows_of(found, group)
            shown = _shown(found, group)
            for k, (method, own) in enumerate(shown.items()):
                offset = 0.7 * ((k + 0.5) / len(shown) - 0.5)
                pairs = [(_mean(own, block), _mean(rows["geodesic"], block)) for block in blocks]
                values = [x / plain if plain > 0 else np.nan for x, plain in pairs]
                places = np.arange(len(blocks)) + offset
                axis.plot(places, values, "o", color=_COLOURS[method], ms=9, mec="white")
            axis.set_title(str(get_group(group)))
            axis.set_xticks(range(len(blocks)), blocks)
            axis.set_xlim(-0.6, len(blocks) - 0.4)
            _ratios(axis)
        _label(axes)
        names = in_order(name for g in groups for name in _shown(found, g))
        handles = [
            axes[0].plot([], [], "o", color=_COLOURS[name], ms=9, label=name)[0] for name in names
        ]
        picture.legend(handles=handles, loc="outside upper center", ncols=len(names))
        return to_svg(picture)


def _shown(found: dict[str, Any], group: str) -> dict[str, list[Row]]:
    """Interpolation is the line."""
    return {name: own for name, own in rows_of(found, group).items() if name != "geodesic"}


def _mean(rows: list[Row], block: str) -> float:
    return float(np.mean([row.means[block] for row in rows]))


def _dots(axis: Any, x: float, values: list[float], colour: str) -> None:
    axis.plot([x - 0.32, x + 0.32], [np.mean(values)] * 2, color=colour, lw=4)
    offsets = np.linspace(-0.14, 0.14, len(values)) if len(values) > 1 else np.zeros(1)
    axis.plot(x + offsets, values, "o", color=colour, ms=7, mec="white")


def _panels(count: int) -> tuple[Any, list[Any]]:
    """A panel a group, three in a row, each with a scale of its own."""
    columns = min(count, 3)
    rows = -(-count // columns)
    picture = canvas(5.4 * columns, 4.4 * rows)
    axes = picture.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[count:]:
        axis.remove()
    return picture, axes[:count]


def _label(axes: list[Any]) -> None:
    for axis in axes[::3]:
        axis.set_ylabel("error over geodesic")


COARSE = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 3, 5, 7, 10)
FINE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5)
FINEST = (*FINE, 0.75, 0.85, 0.95, 1.05)
WIDE, NARROW = 3.0, 1.4  # the largest over the least: from where ticks are coarse, fine


def _ratios(axis: Any) -> None:
    """A log scale that is marked with plain numbers."""
    axis.axhline(1, color=INK, lw=1.2)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    span = high / low
    marks = COARSE if span > WIDE else FINE if span > NARROW else FINEST
    ticks = [x for x in sorted(marks) if low <= x <= high]
    axis.minorticks_off()
    axis.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axis.set_ylim(low, high)
    axis.grid(axis="y", color="#e4e7eb")
    axis.set_axisbelow(True)


FIGURES: tuple[Callable[[dict[str, Any]], Figure], ...] = (overview, by_block)
