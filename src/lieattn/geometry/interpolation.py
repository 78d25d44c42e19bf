"""Interpolation: a pose for each hidden token of an ordered set, from its visible neighbours."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.tensors import island, require_tensors
from ..groups import Group


class Neighbours(NamedTuple):
    """The nearest visible tokens before and after each token, in the order of the set.

    A token that is visible is its own neighbour on both sides. Where there is none on a side, it
    is that of the other; where there is none at all, the index is 0 and `some` is False.
    """

    before: Tensor  # [..., N], indices
    after: Tensor  # [..., N], indices
    share: Tensor  # [..., N], how far it is from `before` to `after`, in [0, 1]; float64
    some: Tensor  # [...], whether the set has a visible token


def neighbours_in_order(visible: Tensor) -> Neighbours:
    """Neighbours of every token of sets of which `visible [..., N]` can be seen.

    >>> near = neighbours_in_order(torch.tensor([False, True, False, False, True]))
    >>> near.before.tolist(), near.after.tolist()
    ([1, 1, 1, 1, 4], [1, 1, 4, 4, 4])
    >>> near.share
    tensor([0.0000, 0.0000, 0.3333, 0.6667, 0.0000], dtype=torch.float64)
    """
    n = visible.shape[-1]
    index = torch.arange(n, device=visible.device).expand(visible.shape)
    before = torch.where(visible, index, -1).cummax(-1).values
    after = torch.where(visible, index, n).flip(-1).cummin(-1).values.flip(-1)
    none_before, none_after = before < 0, after >= n
    before, after = (
        torch.where(none_before, after, before).clamp(0, n - 1),
        torch.where(none_after, before, after).clamp(0, n - 1),
    )
    # In float64: a third of float32 would be all that a float64 pose knows of its share.
    share = (index - before).double() / (after - before).clamp(min=1)
    share = torch.where(after > before, share, 0)
    return Neighbours(before, after, share, visible.any(-1))


def interpolate(group: Group, poses: Tensor, visible: Tensor) -> Tensor:
    r"""Every hidden pose from the visible ones on both sides, $g_a \exp(s \log(g_a^{-1} g_b))$.

    Args:
        group: the group of the poses.
        poses: `[..., N, m, m]`, in their order; what is not visible may hold anything.
        visible: `[..., N]`, True where a pose is known.
    Returns:
        `[..., N, m, m]`: visible poses as they are. At an end, and where two neighbours have no
        relative coordinates (a mirror image, say), the nearer one; in sets without any visible
        pose, the identity. Moves with the poses.

    >>> from lieattn import SE2
    >>> walk = SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0], [2.0, 0.0, 0.0]]))
    >>> SE2.translation(interpolate(SE2, walk, torch.tensor([True, False, True])))[1]
    tensor([1., 0.])
    """
    require_tensors(poses=poses, visible=visible)
    if visible.dtype != torch.bool or visible.shape != poses.shape[:-2]:
        raise ValueError(
            f"visible must be boolean of shape {list(poses.shape[:-2])}, True for a known pose, "
            f"got {visible.dtype} {list(visible.shape)}."
        )
    near = neighbours_in_order(visible)
    known = torch.where(visible[..., None, None], poses, group.identity().to(poses))
    rows = (~visible).nonzero(as_tuple=True)
    first, second = (take(known, index)[rows] for index in (near.before, near.after))
    share = near.share[rows]
    with island(poses):
        w, valid = global_relation(group, first, second)
        steps = share.to(w.dtype)[..., None] * w
        between = group.compose(first, group.exp(steps, chart=group.charts[-1]))
    nearer = torch.where(share[..., None, None] <= 0.5, first, second)
    # Ends are copies: a step of zero would only round them.
    inner = valid & (near.after > near.before)[rows]
    return known.index_put(rows, torch.where(inner[..., None, None], between.to(known), nearer))


class Around(NamedTuple):
    """Visible tokens around each token, nearest first, before and after in turns."""

    tokens: Tensor  # [..., N, 2 count], indices; of the token itself where there is none
    there: Tensor  # [..., N, 2 count]


def around(visible: Tensor, count: int, skip: int = 0) -> Around:
    """The nearest visible tokens on each side of every token, itself not among them.

    Args:
        visible: `[..., N]`.
        count: how many on each side.
        skip: how many nearer ones are left out on each side.

    >>> found = around(torch.tensor([True, False, False, True, True]), 2)
    >>> found.tokens[1].tolist(), found.there[1].tolist()
    ([0, 3, 1, 4], [True, True, False, True])
    """
    n = visible.shape[-1]
    index = torch.arange(n, device=visible.device).expand(visible.shape)
    order = torch.where(visible, index, n + index).argsort(-1)  # visible ones first
    total, passed = visible.sum(-1, keepdim=True), visible.cumsum(-1)
    indices, theres = [], []
    for k in range(1 + skip, 1 + skip + count):
        for rank in (passed - k - visible.long(), passed + k - 1):
            there = (rank >= 0) & (rank < total)
            j = order.gather(-1, rank.clamp(0, n - 1))
            indices.append(torch.where(there, j, index))
            theres.append(there)
    return Around(torch.stack(indices, -1), torch.stack(theres, -1))


def bends(group: Group, guess: Tensor, visible: Tensor, count: int) -> Tensor:
    r"""How visible poses further away depart from the line through the nearest ones: invariants.

    Args:
        group: the group of the poses.
        guess: `interpolate(group, poses, visible)`, `[..., N, m, m]`.
        visible: `[..., N]`.
        count: how many poses on each side, from the second on.
    Returns:
        `[..., N, 1 + 2 count, dim]`: the step v of the line, from token to token, and for each pose
        j, `log(guess_i^-1 g_j) - (j - i) v`. On a line of constant steps that is zero; else it is
        what a second difference is for numbers. Zero where there is no such pose, and for visible
        tokens. At an end, where a guess is a copy, v is zero.
    """
    near = neighbours_in_order(visible)
    further = around(visible, count, skip=1)
    rows = (~visible).nonzero(as_tuple=True)
    with island(guess):
        first, second = (take(guess, index)[rows] for index in (near.before, near.after))
        across, valid = global_relation(group, first, second)
        steps = (near.after - near.before)[rows][..., None]
        inner = valid[..., None] & (steps > 0)
        line = torch.where(inner, across / steps.clamp(min=1), 0)
        others = take_several(guess, further.tokens, rows)
        w, valid = global_relation(group, guess[rows][:, None].expand_as(others), others)
        apart = (further.tokens[rows] - rows[-1][:, None])[..., None]
        shown = (further.there[rows] & valid)[..., None]
        bent = torch.where(shown, w - apart * line[:, None], 0)
    found = torch.cat([line[:, None], bent], 1)
    nothing = found.new_zeros(*visible.shape, *found.shape[1:])
    return nothing.index_put(rows, found)


def global_relation(group: Group, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates `[..., dim]` that lead from a to b in the group's widest chart, and where.

    Not where b is a mirror image of a: no step leads there. Where that chart is global, half turns
    have the same direction whatever their rounding.
    """
    chart = group.charts[-1]
    margin = group.chart_margin(chart) if group.is_global(chart) else 0.0
    w, valid = group.relation(a, b, chart, margin)
    if w.shape[-1] > group.dim:
        valid = valid & (w[..., group.dim] < 0.5)
    return w[..., : group.dim], valid


def take(poses: Tensor, index: Tensor) -> Tensor:
    """Poses `[..., N, m, m]` of the tokens `index [..., N]`."""
    index = index[..., None, None].expand(*index.shape, *poses.shape[-2:])
    return poses.gather(-3, index)


def take_several(poses: Tensor, index: Tensor, rows: tuple[Tensor, ...]) -> Tensor:
    """Poses `[n, K, m, m]` of the tokens `index [..., N, K]`, for the n tokens `rows` alone."""
    sets = rows[:-1]
    return poses[(*(x[:, None] for x in sets), index[rows])]
