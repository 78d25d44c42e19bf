"""A picture of filled gaps: what was known, what was found with its bound, and the truth."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from .._core.folders import write_bytes
from .._core.stopping import written
from .._core.text import printable
from ..data.windows import has_position_column
from .filling import Filled
from .inspection.picture import axis_length, on_paper
from .store import Trained
from .style import COLOURS, INK, PALE, TRUTH, canvas, style

MOST = 4  # panels
SPAN = 48  # poses of a set that is drawn whole
MARGIN = 10  # poses on both sides of a gap
STEPS = 2.5  # between positions, that an axis is long at most


@dataclass(frozen=True)
class View:
    """Some poses of a set, from `start` to before `stop`."""

    filled: Filled
    start: int
    stop: int

    @property
    def title(self) -> str:
        name = printable(self.filled.before.name or self.filled.before.source, 28)
        whole = self.stop - self.start == len(self.filled.poses)
        return name if whole else f"{name}, poses {self.start:,} to {self.stop - 1:,}"


def views(filled: list[Filled]) -> list[View]:
    """What is drawn: sets as they are if they are short, else their longest gaps, in order."""
    found = []
    for x in filled[:MOST]:
        most = max(MOST // len(filled), 1)
        longest = sorted(_gaps(x), key=lambda gap: gap[0] - gap[1])[:most]
        found += [View(x, *gap) for gap in sorted(longest)]
    return found[:MOST]


def _gaps(x: Filled) -> list[tuple[int, int]]:
    """Where something was found, with some poses around; what overlaps is one."""
    n = len(x.poses)
    if n <= SPAN:
        return [(0, n)]
    gaps: list[tuple[int, int]] = []
    for i in x.hidden.nonzero()[:, 0].tolist():
        start, stop = max(i - MARGIN, 0), min(i + MARGIN + 1, n)
        if gaps and start <= gaps[-1][1] and stop - gaps[-1][0] <= 2 * SPAN:
            gaps[-1] = (gaps[-1][0], stop)
        else:
            gaps.append((start, stop))
    return gaps


def draw(trained: Trained, filled: list[Filled], path: Path) -> None:
    """Write the picture."""
    shown = views(filled)
    columns = min(len(shown), 2)
    rows = -(-len(shown) // columns)
    buffer = io.BytesIO()
    colour = COLOURS.get(trained.settings.model, COLOURS["G"])
    ending = path.suffix.lower().removeprefix(".")
    with style():
        figure = canvas(7.8 * columns, 6.2 * rows + 0.6)
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for axis in axes[len(shown) :]:
            axis.set_axis_off()
        for axis, view in zip(axes, shown, strict=False):
            _draw_view(axis, view, colour)
        figure.legend(handles=_legend(shown, colour), loc="outside lower center", ncols=3)
        metadata = {"Date": None} if ending == "svg" else None
        figure.savefig(buffer, format=ending, dpi=110, metadata=metadata)
    with written(path):
        write_bytes(path, buffer.getvalue(), option="--plot")


def _legend(shown: list[View], colour: str) -> list[Line2D]:
    known = any(not view.filled.errors.isnan().all() for view in shown)
    placed = has_position_column(shown[0].filled.before.group)
    return [
        Line2D([], [], color=INK, lw=2, label="known"),
        Line2D([], [], color=colour, lw=2.4, label="found" + ", and its bound" * placed),
        *([Line2D([], [], color=TRUTH, lw=6, label="truth")] if known else []),
    ]


def _draw_view(axis: Any, view: View, colour: str) -> None:
    x, chosen = view.filled, slice(view.start, view.stop)
    group = x.before.group
    hidden, truth_known = x.hidden[chosen].numpy(), (x.before.mask & x.hidden)[chosen].numpy()
    # One view for all: found and true poses are seen from the same side.
    truth = torch.where((x.before.mask & x.hidden)[:, None, None], x.before.poses, x.poses)
    where, along = on_paper(group, torch.cat([x.poses[chosen], truth[chosen]]))
    n = len(hidden)
    found, true = (where[:n], along[:n]), (where[n:], along[n:])
    size = axis_length(where, along)
    if has_position_column(group):
        size = _not_too_long(size, *found)
        axis.plot(*found[0].T, color=PALE, lw=1, zorder=0)
        _draw_bounds(axis, x, chosen, found[0][hidden], colour)
        spread = ",\non the directions in which they spread most" if group.n == 3 else ""
        axis.set_xlabel(f"positions in the file's unit{spread}")
    else:  # the truth where its answer is, not in a row of its own
        true = (found[0], true[1])
        axis.set_axis_off()
    _frames(axis, found, ~hidden, INK, size, 1.6, 2)
    _frames(axis, true, truth_known, TRUTH, size, 6, 1)
    _frames(axis, found, hidden, colour, size, 2.4, 3)
    axis.set_title(view.title, parse_math=False)  # a name may hold a dollar
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.06)


def _not_too_long(size: float, where: np.ndarray, along: np.ndarray) -> float:
    """Axes so short that those of a trajectory do not hide each other."""
    step = np.median(np.linalg.norm(np.diff(where, axis=0), axis=-1)) if len(where) > 1 else 0.0
    typical = max(np.median(np.linalg.norm(along, axis=1)), 1e-300)
    return min(size, STEPS * step / typical) if step > 0 else size


def _draw_bounds(axis: Any, x: Filled, chosen: slice, where: np.ndarray, colour: str) -> None:
    """A circle around every position that was found; none where there is no bound."""
    k = [block.kind for block in x.before.group.blocks].index("translation")
    numbers = (x.hidden.cumsum(0) - 1)[chosen][x.hidden[chosen]]
    linear = x.poses[x.hidden][numbers][:, : x.before.group.n, : x.before.group.n]
    # Bounds are in the unit of the frame, 1 but for affine ones and similarities.
    widths = 2 * (x.within[numbers, k] * torch.linalg.matrix_norm(linear, 2)).numpy()
    there = np.isfinite(widths)
    for centre, width in zip(where[there], widths[there], strict=True):
        axis.add_patch(Ellipse(centre, width, width, facecolor=colour, alpha=0.12, zorder=0))


def _frames(
    axis: Any, frames: Any, chosen: np.ndarray, colour: str, size: float, width: float, order: int
) -> None:
    where, along = frames[0][chosen], frames[1][chosen]
    for k in range(along.shape[-1]):
        steps = along[:, :, k] * size * (1.35 if k == 0 else 1.0)
        ends = np.stack([where, where + steps], 1)
        line = {"color": colour, "lw": width, "solid_capstyle": "round", "zorder": order}
        axis.plot(*ends.transpose(2, 1, 0), **line)
