"""A picture of the findings: a set, the angles of pairs, their distances; a row for each group."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..._core.text import printable
from ...data import PoseSet
from ...data.describe import NEAR, Pairs
from ...groups import Group, get_group
from ..drawing import (
    BLOCK_COLOURS,
    INK,
    PALE,
    Canvas,
    axis_length,
    canvas,
    finish,
    frames,
    save,
    sketch,
)
from .findings import Findings

AXES = ("#D55E00", "#009E73", "#0072B2")  # x, y, z
FRAMES, POSITIONS = 60, 5000  # of a set that are drawn
LONGEST = 0.25  # of an axis, in widths of the picture


def draw(found: Findings, path: Path) -> None:
    """Write the picture."""
    save(partial(_draw, found), path)


def _draw(found: Findings) -> Canvas:
    figure = canvas(15.5, 4.9 * len(found.summaries))
    rows = figure.subplots(len(found.summaries), 3, squeeze=False)
    for axes, (name, (_, pairs)) in zip(rows, found.summaries.items(), strict=True):
        group = get_group(name)
        sets = sorted(found.sets(group), key=len)
        _draw_set(axes[0], sets[len(sets) // 2])
        _draw_angles(axes[1], group, pairs)
        _draw_distances(axes[2], pairs)
    return figure


def _draw_set(axis: Any, x: PoseSet) -> None:
    g = x.poses[x.mask]
    title = f"{x.group}: {printable(x.name, 28) or 'a set'}, {len(g):,} poses"
    axis.set_title(title, parse_math=False)  # a name may hold a dollar
    poses = sketch(x.group, g)
    every = max(1, len(g) // POSITIONS)
    line = 1.2 if x.group.name.startswith("SE") else 0.0  # drawings and parts have no order
    axis.plot(*poses.where[::every].T, color=PALE, lw=line, marker=".", ms=4, zorder=1)
    shown = poses.rows(np.unique(np.linspace(0, len(g) - 1, FRAMES).astype(int)))
    length = axis_length(poses)
    extent = max(np.ptp(poses.where, axis=0).max(), 1e-300)
    sizes = np.maximum(np.linalg.norm(shown.along, axis=1, keepdims=True) * length, 1e-300)
    shortened = shown._replace(along=shown.along * np.minimum(1, LONGEST * extent / sizes))
    frames(axis, shortened, AXES, length, 1.8, 2)
    finish(axis, poses, x.group, x.y_down)


def _draw_angles(axis: Any, group: Group, pairs: Pairs) -> None:
    affine = group.name.startswith("Aff")
    axis.set_title("angle of pairs" if not affine else "angle of pairs, eigenvalues")
    # Pairs outside the chart count as on the cut.
    degrees = np.degrees(pairs.angle.clamp(0, torch.pi).numpy())
    if not _histogram(axis, degrees, np.linspace(0, 180, 46), "rotation", len(degrees)):
        return
    cut = 180 - np.degrees(NEAR)
    axis.axvspan(cut, 180, color=PALE, alpha=0.6, lw=0)
    axis.axvline(180, color=INK, lw=2)
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axis.annotate("the cut", (cut, 1), xytext=(-6, -2), ha="right", va="top", color=INK, **place)
    axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
    axis.set_xlim(0, 184)
    axis.set_xticks(range(0, 181, 45))
    axis.set_xlabel("degrees")


def _draw_distances(axis: Any, pairs: Pairs) -> None:
    axis.set_title("distance of pairs")
    positive = pairs.distance[pairs.distance > 0].numpy()
    low, high = np.quantile(positive, [0.001, 1.0]) if len(positive) else (0.0, 1.0)
    wide = high > 100 * low > 0
    bins = np.geomspace(low, high, 46) if wide else np.linspace(0, high, 46)
    values = np.maximum(positive, bins[0])
    if not _histogram(axis, values, bins, "translation", len(pairs.distance)):
        return
    if wide:
        axis.set_xscale("log")
    axis.set_xlabel("in the file's unit")


def _histogram(axis: Any, values: Any, bins: Any, kind: str, total: int) -> bool:
    """Shares of all pairs; False if there are no values."""
    if not len(values):
        axis.text(0.5, 0.5, "none", ha="center", va="center", transform=axis.transAxes, color=PALE)
        axis.set_axis_off()
        return False
    weights = np.full(len(values), 100 / total)
    axis.hist(values, bins, weights=weights, color=BLOCK_COLOURS[kind], alpha=0.85)
    axis.set_ylabel("% of pairs")
    return True
