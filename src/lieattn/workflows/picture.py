"""A picture of filled gaps: known poses, found ones with their bounds, and the truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.patches import Ellipse

from .._core.text import printable
from ..data.windows import has_position_column
from .drawing import (
    INK,
    PALE,
    TRUTH,
    Canvas,
    Sketch,
    axis_length,
    colours,
    finish,
    frames,
    legend,
    panels,
    save,
    sketch,
)
from .filling import Filled
from .store import Trained

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
    """Short sets as a whole, of long ones the longest gaps, in order."""
    found = []
    for x in filled[:MOST]:
        most = max(MOST // len(filled), 1)
        longest = sorted(_gaps(x), key=lambda gap: gap[0] - gap[1])[:most]
        found += [View(x, *gap) for gap in sorted(longest)]
    return found[:MOST]


def _gaps(x: Filled) -> list[tuple[int, int]]:
    """Gaps with some poses around them; those that overlap are merged."""
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
    save(partial(_draw, trained.settings.model, views(filled)), path)


def _draw(model: str, shown: list[View]) -> Canvas:
    colour = colours([model])[model]
    figure, axes = panels(len(shown), 7.8, 6.5, columns=2)
    for axis, view in zip(axes, shown, strict=True):
        _draw_view(axis, view, colour)
    placed = has_position_column(shown[0].filled.before.group)
    looks = {
        "known": {"color": INK, "lw": 2},
        "found" + ", and its bound" * placed: {"color": colour, "lw": 2.4},
    }
    if any(not view.filled.errors.isnan().all() for view in shown):
        looks["truth"] = {"color": TRUTH, "lw": 6}
    legend(figure, looks)
    return figure


def _draw_view(axis: Any, view: View, colour: str) -> None:
    x, chosen = view.filled, slice(view.start, view.stop)
    group = x.before.group
    hidden, known = x.hidden[chosen].numpy(), (x.before.mask & x.hidden)[chosen]
    # One projection for all: found and true poses are seen from the same side.
    truth = torch.where(known[:, None, None], x.before.poses[chosen], x.poses[chosen])
    n = len(hidden)
    both = sketch(group, torch.cat([x.poses[chosen], truth]), torch.arange(n).repeat(2))
    found, true = both.rows(slice(n)), both.rows(slice(n, None))
    length = axis_length(both)
    if has_position_column(group):
        length = _not_too_long(length, found)
        axis.plot(*found.where.T, color=PALE, lw=1, zorder=0)
        _draw_bounds(axis, x, chosen, found.where[hidden], colour)
    frames(axis, found.rows(~hidden), INK, length, 1.6, 2)
    frames(axis, true.rows(known.numpy()), TRUTH, length, 6, 1)
    frames(axis, found.rows(hidden), colour, length, 2.4, 3)
    axis.set_title(view.title, parse_math=False)  # a name may hold a dollar
    finish(axis, both, group, x.before.y_down)


def _not_too_long(length: float, found: Sketch) -> float:
    """Axes so short that those of a trajectory do not hide each other."""
    steps = np.linalg.norm(np.diff(found.where, axis=0), axis=-1)
    step = np.median(steps) if len(steps) else 0.0
    typical = max(np.median(np.linalg.norm(found.along, axis=1)), 1e-300)
    return min(length, STEPS * step / typical) if step > 0 else length


def _draw_bounds(axis: Any, x: Filled, chosen: slice, where: np.ndarray, colour: str) -> None:
    """A circle around every position that was found; none where there is no bound."""
    k = [block.kind for block in x.before.group.blocks].index("translation")
    numbers = (x.hidden.cumsum(0) - 1)[chosen][x.hidden[chosen]]
    linear = x.poses[x.hidden][numbers][:, : x.before.group.n, : x.before.group.n]
    # Bounds are in the unit of the frame, which affine poses and similarities scale.
    widths = 2 * (x.within[numbers, k] * torch.linalg.matrix_norm(linear, 2)).numpy()
    for centre, width in zip(where, widths, strict=True):
        if np.isfinite(width):
            axis.add_patch(Ellipse(centre, width, width, facecolor=colour, alpha=0.12, zorder=0))
