"""Features of tokens of a set with gaps: places, poses around, absolute-frame features."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._core.tensors import island
from ...geometry.interpolation import around, bends, neighbours_in_order, take_several
from ...groups import Group

PERIODS = (4.0, 16.0, 64.0, 256.0)  # of the waves that encode places, in tokens
PLACES = 3 + 2 * len(PERIODS)


def width_around(group: Group, count: int) -> int:
    """The width of `poses_around`."""
    return group.dim + 2 * count * (group.dim + group.n * group.matrix_size) if count else 0


def poses_around(group: Group, guess: Tensor, visible: Tensor, count: int, step: Tensor) -> Tensor:
    """Features of poses around missing tokens, `[..., N, width]`, in units of `step [dim]`.

    They are second differences of `count` further poses on each side, and relative poses of the
    nearest `count` as matrices. Unlike logarithms, matrices are continuous at half a turn. All are
    invariant.
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
    # asinh keeps small numbers as they are, and large ones from dominating.
    return torch.cat([bent.flatten(-2), views.flatten(-2)], -1).asinh()


def in_frame(group: Group, poses: Tensor, visible: Tensor) -> Tensor:
    """Absolute-frame features, `[..., N, F]`; positions are relative to the visible mean."""
    if group.matrix_size == group.n:
        return poses.flatten(-2)
    places = poses[..., :-1, -1] - mean_position(poses, visible)
    return torch.cat([poses[..., :-1, :-1].flatten(-2), places], -1)


def mean_position(poses: Tensor, visible: Tensor) -> Tensor:
    """The mean position of the visible poses, `[..., 1, n]`; others may hold anything."""
    seen = visible[..., None]
    where = torch.where(seen, poses[..., :-1, -1], 0)
    return where.sum(-2, keepdim=True) / seen.sum(-2, keepdim=True).clamp(min=1)


def place_features(visible: Tensor, hidden: Tensor) -> Tensor:
    """Invariant features of the places of tokens in their order, `[..., N, PLACES]`.

    They are: whether the token is missing; one over the number of steps to the visible tokens on
    both sides, 0 where there is none; sines and cosines of the place.
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
