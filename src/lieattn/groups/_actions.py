"""Points moved by poses: what is common to all groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.small import same_dtype
from .._core.tensors import common_batch, dense, tensor
from . import checks

if TYPE_CHECKING:
    from .base import Group

_ZERO = 1e-6  # of entries of an orthonormal basis


def point_dim(group: Group) -> int:
    """m - 1 where the last row of every pose is (0, ..., 0, 1), else m."""
    m = group.matrix_size
    homogeneous = bool((group._generators64[:, m - 1].abs() < _ZERO).all())
    return m - 1 if homogeneous and m > 1 else m


def operands(group: Group, g: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """Poses and points of one dtype, whose batches broadcast."""
    checks.poses(group, g)
    k = group.point_dim
    if dense(points, "points").shape[-1:] != (k,):
        raise ValueError(
            f"points for {group} must have shape [..., {k}], got {list(points.shape)}."
        )
    tensor(points, "points")
    if common_batch(g.shape[:-2], points.shape[:-1]) is None:
        raise ValueError(
            f"poses {list(g.shape)} and points {list(points.shape)} do not broadcast; "
            "for many points a pose use act(g[..., None, :, :], points)."
        )
    return same_dtype(g, points)


def solve(a: Tensor, b: Tensor) -> Tensor:
    """a^-1 b for `[..., k, k]` and `[..., k]`; of a singular matrix whatever comes out."""
    k = b.shape[-1]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-1])
    # Expanded: torch takes b of certain shapes for vectors.
    a, b = a.expand(*batch, k, k), b.expand(*batch, k)[..., None]
    return torch.linalg.solve_ex(a, b)[0][..., 0]
