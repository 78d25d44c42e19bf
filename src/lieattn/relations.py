"""From poses to pairwise invariants: `w_ij = log(g_i^-1 g_j)` and where it exists."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .groups import Group


class Relations(NamedTuple):
    """Pairwise invariants of two sets of poses, unchanged when one element moves all of them."""

    coords: Tensor  # [..., Nq, Nk, dim], orthonormal coordinates of the chart, 0 where invalid
    valid: Tensor  # [..., Nq, Nk], True where the pair is on the chart


def relations(group: Group, q: Tensor, k: Tensor, chart: str = "principal") -> Relations:
    """Coordinates of `q_i^-1 k_j` for every query i and key j, and their validity.

    Args:
        group: the group of the poses.
        q: query poses, `[..., Nq, m, m]`.
        k: key poses, `[..., Nk, m, m]`; batch dimensions broadcast.
        chart: "principal" (the logarithm) or "polar" (defined for every pair, see `Aff2`).
    Returns:
        `Relations(coords, valid)`. A pair without a logarithm has zero coordinates, zero gradient
        and `valid` False. An exact half turn of SO(n), SE(n), Sim(n) is valid: it has two
        logarithms of equal norms, and one of them comes back.

    Validity depends on `q_i^-1 k_j` alone, so masking by it preserves equivariance.

    >>> import torch
    >>> from lieattn import SE2, relations
    >>> poses = SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    >>> relations(SE2, poses, poses).coords[0, 1]
    tensor([1., 0., 0.])
    """
    for name, poses in (("query", q), ("key", k)):
        if poses.dim() < 3:
            raise ValueError(
                f"{name} poses must be a set [..., N, {group.matrix_size}, {group.matrix_size}], "
                f"got {list(poses.shape)}. For a single pair use group.log_relative(a, b)."
            )
    return Relations(*group.relation(q[..., :, None, :, :], k[..., None, :, :, :], chart))
