"""Gaps of sets of any length, filled by a trained model: a window around each hidden pose."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import data
from .._core.text import printable, quoted
from ..data.windows import piece
from ..geometry.interpolation import interpolate
from .errors import block_errors, in_units
from .store import Trained
from .tensors import CHUNK, stack, unstack


class Unfillable(ValueError):
    """A set whose gaps cannot be filled: the message says why."""


@dataclass(frozen=True)
class Filled:
    """A set without gaps.

    Attributes:
        before: the set as it was.
        hidden: `[N]`, the poses that were found.
        poses: `[N, m, m]` in float64; known ones are as they were.
        within: `[n, K]`, bounds of the errors of the poses found, positions in the file's unit, or
            that of a frame that has a scale of its own, rotations in degrees; infinite where there
            is none.
        errors: `[n, K]`, how far they are off, NaN where the truth is not known.
        longest: poses of the longest gap.
    """

    before: data.PoseSet
    hidden: Tensor
    poses: Tensor
    within: Tensor
    errors: Tensor
    longest: int

    @property
    def after(self) -> data.PoseSet:
        """The set as it is now."""
        return replace(self.before, poses=self.poses, mask=torch.ones_like(self.before.mask))


def fill_set(trained: Trained, x: data.PoseSet, hidden: Tensor, level: float) -> Filled:
    """Find the poses `hidden [N]` of a set from the others.

    In gaps longer than those of training, or too far from a second pose, they are interpolated
    and have no bound.

    Raises:
        Unfillable: fewer than two poses to see.
    """
    visible = x.mask & ~hidden
    if int(visible.sum()) < 2:
        seen = "one pose" if visible.any() else "no pose"
        raise Unfillable(
            f"{quoted(x.name, 60)} has {seen} to see of {len(x)}: a gap is filled from at least "
            "two."
        )
    targets = hidden.nonzero()[:, 0]
    gaps = gap_lengths(visible, targets)
    window = trained.settings.window
    start, stop = spans(visible, targets, window)
    found = interpolate(x.group, x.poses, visible)[hidden]
    within = torch.full((len(targets), len(x.group.blocks)), torch.inf)
    # A gap at an end takes two poses beyond it, which may be far apart: no window is that long.
    near = (gaps <= trained.longest) & (stop - start <= 2 * max(window, 2))
    short = near.nonzero()[:, 0]
    order = short[(stop - start)[short].argsort(stable=True)]  # windows of about one length
    for rows in order.split(CHUNK) if len(order) else ():
        places = torch.stack([targets[rows], start[rows], stop[rows]], -1).tolist()
        found[rows], within[rows] = _answers(trained, x, visible, places, level)
    poses = x.poses.clone()
    poses[hidden] = found
    errors = torch.full_like(within, torch.nan)
    known = x.mask[hidden]
    if known.any():
        off, _ = block_errors(x.group, found[known], x.poses[hidden][known])
        errors[known] = in_units(x.group, off, 1.0).float()
    return Filled(x, hidden, poses, within, errors, int(gaps.max()) if len(gaps) else 0)


def gap_lengths(visible: Tensor, targets: Tensor) -> Tensor:
    """How many tokens in a row cannot be seen where hidden tokens are.

    >>> gap_lengths(torch.tensor([False, True, False, False, True]), torch.tensor([0, 2, 3]))
    tensor([1, 2, 2])
    """
    edges = torch.nn.functional.pad(visible, (1, 1), value=True).nonzero()[:, 0] - 1
    after = torch.searchsorted(edges, targets)
    return edges[after] - edges[after - 1] - 1


def spans(visible: Tensor, targets: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Windows around tokens, with two poses to see in each, on both sides if there are any.

    >>> start, stop = spans(torch.arange(9) != 4, torch.tensor([4]), 4)
    >>> start.tolist(), stop.tolist()
    ([2], [6])
    """
    n, seen = len(visible), visible.nonzero()[:, 0]
    after = torch.searchsorted(seen, targets).clamp(1, len(seen) - 1)  # in `seen`; ends take two
    start = (targets - size // 2).clamp(max=n - size).clamp(min=0)
    stop = (start + size).clamp(max=n)
    return start.minimum(seen[after - 1]), stop.maximum(seen[after] + 1)


def _answers(
    trained: Trained,
    x: data.PoseSet,
    visible: Tensor,
    spans: list[list[int]],
    level: float,
) -> tuple[Tensor, Tensor]:
    """Poses and bounds of tokens `i` seen from windows `start` to `stop`."""
    group, scale = trained.group, trained.preprocessing.scale
    eye = torch.eye(group.matrix_size, dtype=x.poses.dtype)
    seen = replace(x, poses=torch.where(visible[:, None, None], x.poses, eye), mask=visible)
    pieces = [piece(seen, start, stop) for _, start, stop in spans]
    windows = stack(pieces, scale, trained.preprocessing.kinds)
    token, start, stop = torch.tensor(spans).T
    there = torch.arange(windows.mask.shape[1]) < (stop - start)[:, None]
    hidden = there & ~windows.mask
    rows, places = torch.arange(len(spans)), token - start
    try:
        done = trained.model.fill(
            windows.poses, missing=hidden, mask=there, features=windows.features, level=level
        )
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        raise _not_finite(trained, x) from None
    g, bounds = unstack(done.poses[rows, places], pieces, scale), done.within[rows, places]
    if not g.isfinite().all() or bounds.isnan().any():
        raise _not_finite(trained, x)
    return group.project(g), in_units(group, bounds, scale)


def _not_finite(trained: Trained, x: data.PoseSet) -> Unfillable:
    return Unfillable(
        f"the model {trained.path} gives no finite answer for {printable(x.name)!r}: its weights, "
        "or the poses, are too large. Train it again, or look at the poses with lieattn data."
    )
