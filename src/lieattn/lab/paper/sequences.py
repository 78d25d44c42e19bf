"""The task of Section 5: a sequence of eight poses with a constant step; one pose is missing."""

from __future__ import annotations

from math import pi
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ...geometry.pairs import relations
from ...groups import Group
from ...groups.base import Draw
from ...groups.rotations import haar

LENGTH = 8
STEP_ANGLE = pi / 8  # seven such steps stay below a half turn
STEP_TRANSLATION = 0.5  # our choice: the paper gives none
STEP_STRETCH = 0.15
START_TRANSLATION = 3.0
START_STRETCH = 0.5


class SequenceSet(NamedTuple):
    """Sets of seven poses in random order, and the missing interior pose of each."""

    poses: Tensor  # [n, 7, m, m]
    missing: Tensor  # [n, m, m]
    beside: Tensor  # [n, 7], True for the two tokens next to the gap
    positions: Tensor  # [n, 7], where in the sequence each token was, 0..7
    rejected: int  # steps that were drawn again because a power left the chart


def make_sequences(
    group: Group, count: int, generator: Generator, dtype: torch.dtype = torch.float32
) -> SequenceSet:
    """Sequences `g_k = g_0 h^k`, k = 0..7, with one interior token removed and the rest permuted.

    The logarithm of every relative pose `h^k` is k times that of the step; every step is tested for
    this. Poses are drawn and multiplied in float64, then rounded.

    >>> import lieattn as la
    >>> sets = make_sequences(la.SE2, 5, torch.Generator().manual_seed(0))
    >>> sets.poses.shape, sets.beside.sum(-1).tolist(), sets.rejected
    (torch.Size([5, 7, 3, 3]), [2, 2, 2, 2, 2], 0)
    """
    start = random_frames(group, count, generator)
    steps, rejected = _safe_steps(group, count, generator)
    powers = torch.arange(LENGTH, dtype=torch.float64)[:, None]
    sequence = group.compose(start[:, None], group.exp(powers * steps[:, None])).to(dtype)
    gap = torch.randint(1, LENGTH - 1, (count, 1), generator=generator)
    order = torch.rand(count, LENGTH - 1, generator=generator).argsort(-1)
    order = order + (order >= gap)  # positions in the sequence, without the gap's
    rows = torch.arange(count)[:, None]
    beside = (order - gap).abs() == 1
    sets = SequenceSet(sequence[rows, order], sequence[rows, gap][:, 0], beside, order, rejected)
    _require_on_chart(group, sets)
    return sets


def random_frames(group: Group, count: int, generator: Generator) -> Tensor:
    """Start poses of sequences, spread over the group, `[count, m, m]` in float64.

    Rotation Haar-uniform, translation N(0, 9 I), times the exponential of a symmetric matrix with
    coefficients U(-1/2, 1/2) where the group has scale and shear.
    """
    g = group.identity(count, dtype=torch.float64)
    n = group.n
    if group.coordinates_of("rotation"):
        g[:, :n, :n] = haar(n, (count,), Draw(generator, torch.float64))
    if group.matrix_size > n:
        g[:, :n, n] = START_TRANSLATION * _normal(count, n, generator)
    stretch = [
        START_STRETCH * _uniform(count, block.dim, generator)
        if block.kind in ("scale", "shear", "other")
        else torch.zeros(count, block.dim, dtype=torch.float64)
        for block in group.blocks
    ]
    return group.compose(g, group.exp(group.from_physical(torch.cat(stretch, dim=-1))))


def random_steps(group: Group, count: int, generator: Generator) -> Tensor:
    """Orthonormal coordinates of steps, `[count, dim]`, block by block.

    Rotation uniform in the ball of radius pi/8, translation N(0, I/4), scale and shear
    U(-0.15, 0.15) in physical coordinates.
    """
    parts = []
    for block in group.blocks:
        if block.kind == "translation":
            parts.append(STEP_TRANSLATION * _normal(count, block.dim, generator))
        elif block.kind == "rotation":
            parts.append(STEP_ANGLE * _ball(count, block.dim, generator))
        else:
            parts.append(STEP_STRETCH * _uniform(count, block.dim, generator))
    return group.from_physical(torch.cat(parts, dim=-1))


def _safe_steps(group: Group, count: int, generator: Generator) -> tuple[Tensor, int]:
    """Steps that are on chart up to the seventh power, and how many drawn ones were not."""
    steps, rejected = random_steps(group, count, generator), 0
    while True:
        unsafe = ~_on_chart(group, steps)
        bad = int(unsafe.sum())
        if not bad:
            return steps, rejected
        rejected += bad
        steps[unsafe] = random_steps(group, bad, generator)


def _on_chart(group: Group, steps: Tensor) -> Tensor:
    """True where `log(h^k) = k log(h)` for k = 1..7, with the margin that models keep, `[n]`.

    It is not enough that each power is in the chart: past a half turn it is in the chart again, as
    the power of another step.
    """
    multiples = torch.arange(1, LENGTH, dtype=torch.float64)[:, None] * steps[:, None]
    powers = group.exp(multiples)
    there = group.in_chart(powers, group.chart_margin())
    w = torch.where(there[..., None], group.log(powers), torch.inf)
    return ((w - multiples).abs() <= 1e-6 * (1 + multiples.abs())).all(-1).all(-1)


def _require_on_chart(group: Group, sets: SequenceSet) -> None:
    """The rounded poses too: every pair has a logarithm, and so has every correction."""
    margin = group.chart_margin()
    pairs = relations(group, sets.poses, sets.poses, margin=margin).valid
    corrections = group.relation(sets.poses, sets.missing[:, None], margin=margin)[1]
    if not (pairs.all() and corrections.all()):
        raise ArithmeticError(f"a sequence on {group} left the principal chart by rounding.")


def _normal(count: int, dim: int, generator: Generator) -> Tensor:
    return torch.randn(count, dim, generator=generator, dtype=torch.float64)


def _uniform(count: int, dim: int, generator: Generator) -> Tensor:
    """Uniform in [-1, 1]."""
    return 2 * torch.rand(count, dim, generator=generator, dtype=torch.float64) - 1


def _ball(count: int, dim: int, generator: Generator) -> Tensor:
    """Uniform in the unit ball."""
    direction = torch.nn.functional.normalize(_normal(count, dim, generator), dim=-1)
    radius = torch.rand(count, 1, generator=generator, dtype=torch.float64) ** (1 / dim)
    return radius * direction
