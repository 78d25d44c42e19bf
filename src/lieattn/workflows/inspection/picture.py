"""A picture of what was found: a set, the angles of pairs, their distances; a row a group."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.errors import RunError
from ..._core.folders import write_bytes
from ..._core.stopping import written
from ..._core.text import printable
from ...data import PoseSet
from ...data.describe import NEAR, Pairs
from ...data.windows import has_position_column
from ...groups import Group, get_group
from ..style import BLOCK_COLOURS, INK, PALE, canvas, style
from .findings import Findings

ENDINGS = (".png", ".svg", ".pdf")
AXES = ("#D55E00", "#009E73", "#0072B2")  # x, y, z
FRAMES, POSITIONS = 60, 5000  # of a set that are drawn
TILT = np.array([[0.954, 0.0, 0.3], [-0.096, 0.947, 0.306]])
CAMERA = np.array([[0.86, -0.5, 0.0], [0.28, 0.48, 0.83]])  # rotations, seen from above


def require_drawable(path: Path) -> None:
    """Refuse what matplotlib could not write, before anything is read."""
    if path.suffix.lower() not in ENDINGS:
        raise RunError(f"--plot writes {', '.join(ENDINGS)}, got {path.name!r}.")
    if not path.absolute().parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.absolute().parent}.")


def draw(found: Findings, path: Path) -> None:
    """Write the picture."""
    buffer = io.BytesIO()
    ending = path.suffix.lower().removeprefix(".")
    with style():
        figure = canvas(15.5, 4.9 * len(found.summaries))
        rows = figure.subplots(len(found.summaries), 3, squeeze=False)
        for axes, (name, (_, pairs)) in zip(rows, found.summaries.items(), strict=True):
            group = get_group(name)
            sets = found.sets(group)
            _draw_set(axes[0], _shown(sets))
            _draw_angles(axes[1], group, pairs)
            _draw_distances(axes[2], pairs)
        metadata = {"Date": None} if ending == "svg" else None
        figure.savefig(buffer, format=ending, dpi=110, metadata=metadata)
    with written(path):
        write_bytes(path, buffer.getvalue())


def _shown(sets: list[PoseSet]) -> PoseSet:
    """The set of median size: neither the smallest nor the one that nobody can see through."""
    return sorted(sets, key=len)[len(sets) // 2]


# ---- a set -----------------------------------------------------------------------------------


def _draw_set(axis: Any, x: PoseSet) -> None:
    g = x.poses[x.mask]
    title = f"{x.group}: {printable(x.name, 28) or 'a set'}, {len(g):,} poses"
    axis.set_title(title, parse_math=False)  # a name may hold a dollar
    where, along = on_paper(x.group, g)
    every = max(1, len(g) // POSITIONS)
    line = 1.2 if x.group.name.startswith("SE") else 0.0  # drawings and parts have no order
    axis.plot(*where[::every].T, color=PALE, lw=line, marker=".", ms=4, zorder=1)
    chosen = np.unique(np.linspace(0, len(g) - 1, FRAMES).astype(int))
    length = axis_length(where, along)
    for k in range(along.shape[-1]):
        steps = along[chosen, :, k] * length
        size = np.linalg.norm(steps, axis=-1, keepdims=True)
        extent = max(np.ptp(where, axis=0).max(), 1e-300)
        steps = steps * np.minimum(1, 0.25 * extent / np.maximum(size, 1e-300))
        ends = np.stack([where[chosen], where[chosen] + steps], 1)
        axis.plot(*ends.transpose(2, 1, 0), color=AXES[k], lw=1.8, solid_capstyle="round", zorder=2)
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.08)
    if not has_position_column(x.group):
        axis.set_axis_off()


def on_paper(group: Group, g: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Positions `[N, 2]` and axes `[N, 2, n]` of poses; rotations are set out in rows."""
    axes = g[:, : group.n, : group.n]
    if not has_position_column(group):
        columns = int(np.ceil(np.sqrt(2 * len(g))))
        index = torch.arange(len(g))
        where = torch.stack((index % columns, -(index // columns)), -1).double()
        view = torch.eye(2).double() if group.n == 2 else torch.from_numpy(CAMERA)
        return where.numpy(), (view @ axes).numpy()
    t = g[:, :-1, -1]
    if group.n == 2:
        return t.numpy(), axes.numpy()
    # Upon the two directions in which the positions spread most, tilted to show the third.
    centred = t - t.mean(0)
    size = centred.abs().max()
    _, vectors = torch.linalg.eigh((centred / size).mT @ (centred / size) if size > 0 else t.mT @ t)
    view = torch.from_numpy(TILT) @ vectors.flip(-1).mT
    return (centred @ view.mT).numpy(), (view @ axes).numpy()


def axis_length(where: np.ndarray, along: np.ndarray) -> float:
    """Factor by which axes are drawn: the typical one a twentieth of the picture."""
    extent = np.ptp(where, axis=0).max() if len(where) > 1 else 1.0
    typical = np.median(np.linalg.norm(along, axis=1))
    return float(0.05 * (extent or 1.0) / max(typical, 1e-300))


# ---- pairs -----------------------------------------------------------------------------------


def _draw_angles(axis: Any, group: Group, pairs: Pairs) -> None:
    affine = group.name.startswith("Aff")
    axis.set_title("angle of pairs" if not affine else "angle of pairs, eigenvalues")
    if not len(pairs.angle):
        _nothing(axis)
        return
    # Off the chart counts as on the cut.
    degrees = np.degrees(pairs.angle.clamp(0, torch.pi).numpy())
    weights = np.full(len(degrees), 100 / len(degrees))
    axis.hist(
        degrees,
        np.linspace(0, 180, 46),
        weights=weights,
        color=BLOCK_COLOURS["rotation"],
        alpha=0.85,
    )
    axis.axvspan(180 - np.degrees(NEAR), 180, color=PALE, alpha=0.6, lw=0)
    axis.axvline(180, color=INK, lw=2)
    axis.annotate(
        "the cut",
        (180 - np.degrees(NEAR), 1),
        xycoords=("data", "axes fraction"),
        xytext=(-6, -2),
        textcoords="offset points",
        ha="right",
        va="top",
        color=INK,
    )
    axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
    axis.set_xlim(0, 184)
    axis.set_xticks(range(0, 181, 45))
    axis.set_xlabel("degrees")
    axis.set_ylabel("% of pairs")


def _draw_distances(axis: Any, pairs: Pairs) -> None:
    axis.set_title("distance of pairs")
    positive = pairs.distance[pairs.distance > 0].numpy()
    if not len(positive):
        _nothing(axis)
        return
    low, high = np.quantile(positive, [0.001, 1.0])
    wide = high > 100 * low
    bins = np.geomspace(low, high, 46) if wide else np.linspace(0, high, 46)
    weights = np.full(len(positive), 100 / len(pairs.distance))
    colour = BLOCK_COLOURS["translation"]
    axis.hist(np.maximum(positive, bins[0]), bins, weights=weights, color=colour, alpha=0.85)
    if wide:
        axis.set_xscale("log")
    axis.set_xlabel("in the file's unit")
    axis.set_ylabel("% of pairs")


def _nothing(axis: Any) -> None:
    axis.text(0.5, 0.5, "none", ha="center", va="center", transform=axis.transAxes, color=PALE)
    axis.set_axis_off()
