"""Derivatives of the exponential, in orthonormal coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.small import linear_map, mul
from . import _expm, checks

if TYPE_CHECKING:
    from .base import Group


def argument(group: Group, x: Tensor, chart: str) -> Tensor:
    """Coordinates `[..., dim]`; in a chart of more coordinates these may be there or not."""
    return checks.coordinates(group, x, tuple({group.dim: 0, group.chart_dim(chart): 0}))


def adjoint_action(generators: Tensor) -> Tensor:
    """ad of each generator `[d, m, m]` of an orthonormal basis, `[d, d, d]`."""
    products = torch.einsum("iab,jbc->ijac", generators, generators)
    return torch.einsum("ijab,kab->ikj", products - products.transpose(0, 1), generators)


def left(adjoint: Tensor, x: Tensor) -> Tensor:
    """J_l = (e^ad - 1) / ad for coordinates `[..., d]`; `adjoint` is ad of each, `[d, d, d]`."""
    d = x.shape[-1]
    adjoint = adjoint.to(dtype=x.dtype, device=x.device)
    return _expm.left_jacobian(linear_map(x, adjoint.flatten(1)).unflatten(-1, (d, d)))


def left_of_chart(group: Group, x: Tensor, chart: str) -> Tensor:
    """J_l of the exp of any chart, by forward mode: dg g^-1, a column a coordinate."""
    g, velocities = _pushed(group, x, chart)
    return group.vee(mul(velocities, group.inverse(g))).movedim(0, -1)


def right_of_chart(group: Group, x: Tensor, chart: str) -> Tensor:
    """J_r of the exp of any chart: g^-1 dg."""
    g, velocities = _pushed(group, x, chart)
    return group.vee(mul(group.inverse(g), velocities)).movedim(0, -1)


def _pushed(group: Group, x: Tensor, chart: str) -> tuple[Tensor, Tensor]:
    """Poses `[..., m, m]` and how they move with each coordinate of the algebra, in front."""

    def along(direction: Tensor) -> Tensor:
        move = torch.func.jvp(lambda y: group.exp(y, chart), (x,), (direction.expand_as(x),))
        return move[1]

    axes = torch.eye(group.dim, x.shape[-1], dtype=x.dtype, device=x.device)
    return group.exp(x, chart), torch.func.vmap(along)(axes)
