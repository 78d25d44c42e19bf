"""Gaps of sets of any length, filled by a trained model: a window around each hidden pose."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ... import data
from ...data.windows import has_translations, piece
from .errors import block_errors, in_units
from .store import Trained
from .tensors import stack

CHUNK = 64  # windows at a time


class Unfillable(ValueError):
    """A set whose gaps cannot be filled: the message says why."""


@dataclass(frozen=True)
class Filled:
    """A set without gaps.

    Attributes:
        before: the set as it was.
        hidden: `[N]`, the poses that were found.
        poses: `[N, m, m]` in float64; known ones are as they were.
        within: `[n, K]`, bounds of the errors of the poses found, in the file's unit and degrees.
        errors: `[n, K]`, how far they are off, NaN where the truth is not known.
        stretched: the longest gap, if it is longer than the windows of training; else 0.
    """

    before: data.PoseSet
    hidden: Tensor
    poses: Tensor
    within: Tensor
    errors: Tensor
    stretched: int


def fill_set(trained: Trained, x: data.PoseSet, hidden: Tensor, level: float) -> Filled:
    """Find the poses `hidden [N]` of a set from the others.

    Raises:
        Unfillable: fewer than two poses to see.
    """
    visible = x.mask & ~hidden
    if int(visible.sum()) < 2:
        seen = "one pose" if visible.any() else "no pose"
        raise Unfillable(
            f"{x.name!r} has {seen} to see of {len(x)}: a gap is filled from at least two."
        )
    targets = hidden.nonzero()[:, 0].tolist()
    spans = [_span(visible, i, trained.settings.window) for i in targets]
    found = torch.zeros(len(targets), *x.poses.shape[-2:], dtype=torch.float64)
    within = torch.zeros(len(targets), len(x.group.blocks))
    order = sorted(range(len(targets)), key=lambda k: spans[k][1] - spans[k][0])
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        found[rows], within[rows] = _answers(
            trained, x, visible, [(targets[k], *spans[k]) for k in rows], level
        )
    poses = x.poses.clone()
    poses[hidden] = found
    errors = torch.full_like(within, torch.nan)
    known = x.mask[hidden]
    if known.any():
        off, _ = block_errors(x.group, found[known], x.poses[hidden][known])
        errors[known] = in_units(x.group, off, 1.0).float()
    longest = max(stop - start for start, stop in spans) if spans else 0
    stretched = longest if longest > trained.settings.window else 0
    return Filled(x, hidden, poses, within, errors, stretched)


def _span(visible: Tensor, i: int, size: int) -> tuple[int, int]:
    """A window around token i with poses to see, on both sides if there are any."""
    n = len(visible)
    seen = visible.nonzero()[:, 0]
    before, after = seen[seen < i], seen[seen > i]
    start = max(0, min(i - size // 2, n - size))
    stop = min(n, start + size)
    if len(before):
        start = min(start, int(before[-1]))
    if len(after):
        stop = max(stop, int(after[0]) + 1)
    while int(visible[start:stop].sum()) < 2:  # all of it has two
        start, stop = max(0, start - 1), min(n, stop + 1)
    return start, stop


def _answers(
    trained: Trained,
    x: data.PoseSet,
    visible: Tensor,
    spans: list[tuple[int, int, int]],
    level: float,
) -> tuple[Tensor, Tensor]:
    """Poses and bounds of tokens `i` seen from windows `start` to `stop`."""
    group, scale = trained.group, trained.choice.scale
    pieces = [_seen(piece(x, start, stop), visible[start:stop]) for _, start, stop in spans]
    windows = stack(pieces, scale)
    size = windows.mask.shape[1]
    there = torch.zeros(len(spans), size, dtype=torch.bool)
    for row, (_, start, stop) in enumerate(spans):
        there[row, : stop - start] = True
    done = trained.model.fill(windows.poses, there & ~windows.mask, there, level=level)
    rows = torch.arange(len(spans))
    places = torch.tensor([i - start for i, start, _ in spans])
    g = done.poses[rows, places].double()
    if has_translations(group):
        # Back to where the windows were.
        means = torch.stack([p.poses[p.mask][:, :-1, -1].mean(0) for p in pieces])
        g[:, :-1, -1] = g[:, :-1, -1] * scale + means
    return group.project(g), in_units(group, done.within[rows, places], scale)


def _seen(x: data.PoseSet, visible: Tensor) -> data.PoseSet:
    """A set in which hidden poses are masked."""
    eye = torch.eye(x.poses.shape[-1], dtype=x.poses.dtype)
    poses = torch.where(visible[:, None, None], x.poses, eye)
    return data.PoseSet(x.group, poses, visible, x.names, x.name, x.source)
