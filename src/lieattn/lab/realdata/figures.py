"""Figures of real data: errors of every method, averaged over blocks and block by block."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...groups import get_group
from ...workflows import drawing
from ...workflows.drawing import Canvas, colours, panels
from ..report.document import Figure
from .results import Row, groups_of, in_order, rows_of


def overview(found: dict[str, Any]) -> Figure:
    """All groups and methods in one figure."""
    caption = (
        "Error of hidden poses of the test part over that of geodesic interpolation (the line), "
        "averaged over blocks, log scales: lower is better. Dots are seeds, bars their mean."
    )
    return Figure("realdata", caption, partial(_draw_overview, found))


def by_block(found: dict[str, Any]) -> Figure:
    """The same, block by block."""
    caption = (
        "The same block by block: mean error over that of geodesic interpolation, log scale, "
        "averaged over seeds."
    )
    return Figure("realdata-blocks", caption, partial(_draw_blocks, found))


def _draw_overview(found: dict[str, Any]) -> Canvas:
    figure, axes, colour = _panels(found)
    for axis, group in zip(axes, groups_of(found), strict=True):
        own = _shown(found, group)
        for x, (method, rows) in enumerate(own.items()):
            drawing.seeds(axis, x, [row.over for row in rows], colour[method])
        _label(axis, [name.replace(" ", "\n") for name in own])
    return figure


def _draw_blocks(found: dict[str, Any]) -> Canvas:
    figure, axes, colour = _panels(found)
    for axis, group in zip(axes, groups_of(found), strict=True):
        blocks = [block.name for block in get_group(group).blocks]
        plain, shown = _means(rows_of(found, group)["geodesic"], blocks), _shown(found, group)
        for k, (method, rows) in enumerate(shown.items()):
            places = np.arange(len(blocks)) + 0.7 * ((k + 0.5) / len(shown) - 0.5)
            values = _means(rows, blocks) / np.where(plain > 0, plain, np.nan)
            axis.plot(places, values, "o", color=colour[method], ms=9, mec="white")
        _label(axis, blocks)
    looks = {name: {"color": x, "marker": "o", "ls": "", "ms": 9} for name, x in colour.items()}
    drawing.legend(figure, looks, columns=len(looks))
    return figure


def _panels(found: dict[str, Any]) -> tuple[Canvas, list[Any], dict[str, str]]:
    """A panel for each group, and the colours of all methods."""
    groups = groups_of(found)
    figure, axes = panels(len(groups), 5.4, 4.4)
    for axis, group in zip(axes, groups, strict=True):
        axis.set_title(str(get_group(group)))
    for axis in axes[::3]:
        axis.set_ylabel("error over geodesic")
    methods = in_order(name for group in groups for name in _shown(found, group))
    return figure, axes, colours(methods)


def _shown(found: dict[str, Any], group: str) -> dict[str, list[Row]]:
    """All methods but interpolation, which is the line."""
    return {name: rows for name, rows in rows_of(found, group).items() if name != "geodesic"}


def _means(rows: list[Row], blocks: list[str]) -> np.ndarray:
    return np.array([[row.blocks[block]["mean"] for block in blocks] for row in rows]).mean(0)


def _label(axis: Any, names: list[str]) -> None:
    axis.set_xticks(range(len(names)), names, fontsize=12)
    axis.set_xlim(-0.6, len(names) - 0.4)
    drawing.ratio_scale(axis)
