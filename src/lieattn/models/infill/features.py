"""What tokens of a set with gaps are told: places, poses around, where they are in a frame."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._core.tensors import island
from ...geometry.interpolation import around, bends, neighbours_in_order, take_several
from ...groups import Group

PERIODS = (4.0, 16.0, 64.0, 256.0)  # tokens, of the waves that tell tokens where they are
PLACES = 3 + 2 * len(PERIODS)


def width_around(group: Group, count: int) -> int:
    """Numbers of `poses_around`."""
    return group.dim + 2 * count * (group.dim + group.n * group.matrix_size) if count else 0


def poses_around(group: Group, guess: Tensor, visible: Tensor, count: int, step: Tensor) -> Tensor:
    """How hidden tokens see poses around, `[..., N, width]`: invariants, in units of `step [dim]`.

    Bends of `count` poses further away, and the matrices of as many, the nearest ones: unlike
    logarithms they are continuous where a rotation is half a turn.
    """
    n, near = group.n, around(visible, count)
    rows = (~visible).nonzero(as_tuple=True)
    others = take_several(guess, near.tokens, rows)
    with island(guess):
        bent = bends(group, guess, visible, count) / step.to(guess)
        seen = group.relative(guess[rows][:, None].expand_as(others), others)
        entries = [(seen[..., :n, :n] - torch.eye(n).to(seen)).flatten(-2)]
        if group.matrix_size > n:
            unit = step[group.coordinates_of("translation")[:n]].to(seen)
            entries.append(seen[..., :n, n] / unit)
        found = torch.where(near.there[rows][..., None], torch.cat(entries, -1), 0)
        nothing = found.new_zeros(*visible.shape, *found.shape[1:])
        views = nothing.index_put(rows, found)
    # asinh: as they are while small, and nothing is so large that it drowns the rest.
    return torch.cat([bent.flatten(-2), views.flatten(-2)], -1).asinh()


def in_frame(group: Group, poses: Tensor, visible: Tensor) -> Tensor:
    """How tokens stand in the frame of the poses, `[..., N, F]`; places from the visible mean."""
    if group.matrix_size == group.n:
        return poses.flatten(-2)
    places = poses[..., :-1, -1] - mean_position(poses, visible)
    return torch.cat([poses[..., :-1, :-1].flatten(-2), places], -1)


def mean_position(poses: Tensor, visible: Tensor) -> Tensor:
    """Of the visible poses of every set, `[..., 1, n]`; others may hold anything."""
    seen = visible[..., None]
    where = torch.where(seen, poses[..., :-1, -1], 0)
    return where.sum(-2, keepdim=True) / seen.sum(-2, keepdim=True).clamp(min=1)


def place_features(visible: Tensor, hidden: Tensor) -> Tensor:
    """What tokens are told about their places, `[..., N, PLACES]`: invariants.

    Whether it is hidden, one over the steps to the visible tokens on both sides, 0 where there is
    none, and waves of the place in the order.
    """
    near = neighbours_in_order(visible)
    index = torch.arange(visible.shape[-1], device=visible.device).expand(visible.shape)
    since, until = index - near.before, near.after - index
    marks = [hidden.float()]
    marks += [
        torch.where(hidden & (steps > 0), 1 / steps.clamp(min=1), 0.0) for steps in (since, until)
    ]
    for period in PERIODS:
        angle = index * (2 * torch.pi / period)
        marks += [angle.sin(), angle.cos()]
    return torch.stack(marks, dim=-1)
