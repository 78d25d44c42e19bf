"""Derivatives of the exponential, in orthonormal coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.small import linear_map, mul
from . import _expm

if TYPE_CHECKING:
    from ._charts import Chart


def adjoint_action(generators: Tensor) -> Tensor:
    """ad of each generator `[d, m, m]` of an orthonormal basis, `[d, d, d]`."""
    products = torch.einsum("iab,jbc->ijac", generators, generators)
    return torch.einsum("ijab,kab->ikj", products - products.transpose(0, 1), generators)


def left(adjoint: Tensor, x: Tensor) -> Tensor:
    """J_l = (e^ad - 1) / ad for coordinates `[..., d]`; `adjoint` is ad of each, `[d, d, d]`."""
    d = x.shape[-1]
    adjoint = adjoint.to(dtype=x.dtype, device=x.device)
    return _expm.left_jacobian(linear_map(x, adjoint.flatten(1)).unflatten(-1, (d, d)))


def left_of_chart(chart: Chart, x: Tensor) -> Tensor:
    """J_l of the exp of any chart, by forward mode: dg g^-1, one column per coordinate."""
    g, velocities = _pushed(chart, x)
    return chart.group.vee(mul(velocities, chart.group.inverse(g))).movedim(0, -1)


def right_of_chart(chart: Chart, x: Tensor) -> Tensor:
    """J_r of the exp of any chart: g^-1 dg."""
    g, velocities = _pushed(chart, x)
    return chart.group.vee(mul(chart.group.inverse(g), velocities)).movedim(0, -1)


def _pushed(chart: Chart, x: Tensor) -> tuple[Tensor, Tensor]:
    """Poses `[..., m, m]`, and their derivatives by the algebra's coordinates, stacked in front."""

    def along(direction: Tensor) -> Tensor:
        move = torch.func.jvp(chart.exp, (x,), (direction.expand_as(x),))
        return move[1]

    axes = torch.eye(chart.group.dim, x.shape[-1], dtype=x.dtype, device=x.device)
    return chart.exp(x), torch.func.vmap(along)(axes)
