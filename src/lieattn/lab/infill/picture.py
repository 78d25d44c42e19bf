"""A picture of filled gaps: what was known, what was found with its bound, and the truth."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.collections import EllipseCollection
from matplotlib.lines import Line2D

from ...data.windows import has_translations
from ..inspection.picture import axis_length, on_paper
from ..report.style import COLOURS, INK, PALE, TRUTH, canvas, style
from ..storage import write_bytes
from .filling import Filled
from .store import Trained

MOST_SETS = 4
SPAN = 64  # poses around the first gap, where a set is longer


def draw(trained: Trained, filled: list[Filled], path: Path) -> None:
    """Write the picture of the first sets."""
    shown = filled[:MOST_SETS]
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    buffer = io.BytesIO()
    colour = COLOURS[trained.settings.model]
    ending = path.suffix.lower().removeprefix(".")
    with style():
        figure = canvas(7.8 * columns, 6.2 * rows + 0.6)
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axis in axes[len(shown) :]:
            axis.set_axis_off()
        for axis, x in zip(axes, shown, strict=False):
            _draw_set(axis, x, colour)
        known = any(not x.errors.isnan().all() for x in shown)
        handles = [
            Line2D([], [], color=INK, lw=2, label="known"),
            Line2D([], [], color=colour, lw=2.4, label="found, and its bound"),
            *([Line2D([], [], color=TRUTH, lw=6, label="truth")] if known else []),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        metadata = {"Date": None} if ending == "svg" else None
        figure.savefig(buffer, format=ending, dpi=110, metadata=metadata)
    write_bytes(path, buffer.getvalue())


def _draw_set(axis: Any, x: Filled, colour: str) -> None:
    group = x.before.group
    chosen = _stretch(x)
    hidden, truth_known = x.hidden[chosen].numpy(), (x.before.mask & x.hidden)[chosen].numpy()
    # One view for all: found and true poses are seen from the same side.
    both = torch.cat([x.poses[chosen], x.before.poses[chosen]])
    where, along = on_paper(group, both)
    n = len(hidden)
    size = axis_length(where, along)
    found, truth = (where[:n], along[:n]), (where[n:], along[n:])
    if not has_translations(group):  # the truth where its answer is, not in a row of its own
        truth = (found[0], truth[1])
    else:
        axis.plot(*found[0].T, color=PALE, lw=1, zorder=0)
    _frames(axis, found, ~hidden, INK, size, 1.6, 2)
    _frames(axis, truth, truth_known, TRUTH, size, 6, 1)
    _frames(axis, found, hidden, colour, size, 2.4, 3)
    names = [block.name for block in group.blocks]
    if "translation" in names:
        bounds = x.within[:, names.index("translation")].numpy()
        bounds = bounds[(x.hidden.cumsum(0) - 1)[chosen][x.hidden[chosen]].numpy()]
        widths = 2 * bounds
        circles = EllipseCollection(
            widths,
            widths,
            np.zeros_like(widths),
            units="xy",
            offsets=found[0][hidden],
            transOffset=axis.transData,
            facecolor=colour,
            alpha=0.12,
            zorder=0,
        )
        axis.add_collection(circles)
    title = x.before.name or x.before.source
    axis.set_title(title if len(title) <= 40 else title[:37] + "...")
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)
    if not has_translations(group):
        axis.set_axis_off()


def _stretch(x: Filled) -> slice:
    """The poses that are drawn: all, or those around the first gap."""
    if len(x.poses) <= SPAN:
        return slice(None)
    first = int(x.hidden.nonzero()[0])
    start = max(0, min(first - SPAN // 4, len(x.poses) - SPAN))
    return slice(start, start + SPAN)


def _frames(
    axis: Any, frames: Any, chosen: np.ndarray, colour: str, size: float, width: float, order: int
) -> None:
    where, along = frames[0][chosen], frames[1][chosen]
    for k in range(along.shape[-1]):
        steps = along[:, :, k] * size * (1.35 if k == 0 else 1.0)
        ends = np.stack([where, where + steps], 1)
        line = {"color": colour, "lw": width, "solid_capstyle": "round", "zorder": order}
        axis.plot(*ends.transpose(2, 1, 0), **line)
