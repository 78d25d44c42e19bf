"""Charts: coordinates of group elements. The principal logarithm, which every group has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import _jacobians, checks
from ._blocks import Block

if TYPE_CHECKING:
    from .base import Group

CHARTS = ("principal", "polar")


class Chart:
    """The principal logarithm, from the closed forms of a group.

    `Group.chart(name)` returns the chart of a name. A group that has another chart derives a class
    from this one and returns it from `Group._make_chart`.

    Attributes:
        group: whose elements it describes.
        name: as in `Group.charts`.
        blocks: of its coordinates; those of the algebra come first.
        margin: how far from the cut, in radians, layers and models require pairs to be. At a half
            turn the sign of the coordinates depends on rounding.
        is_global: whether pairs have coordinates however close to the cut they are. A margin then
            moves the cut (see `Group.relation`).
    """

    margin = 0.01
    is_global = False

    def __init__(self, group: Group, name: str) -> None:
        self.group, self.name = group, name
        self.blocks: tuple[Block, ...] = group.blocks

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return sum(block.dim for block in self.blocks)

    def resolution(self, dtype: torch.dtype) -> float:
        """Angle to the cut below which rounding decides whether a pair is on the chart.

        The operator leaves such pairs out, so that all of its backends decide alike.
        """
        return 0.0

    def exp(self, x: Tensor) -> Tensor:
        """Poses `[..., m, m]` of coordinates; those beyond the algebra's may be left out."""
        return self.group._exp(x)

    def log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and validity; finite, with finite gradients, also where invalid."""
        return self.group._log(g)

    def relation(self, a: Tensor, b: Tensor, margin: float = 0.0) -> tuple[Tensor, Tensor]:
        """Coordinates of a^-1 b, valid where they are farther from the cut than the margin."""
        w, valid = self.group._log_relative(a, b)
        if margin:
            clearance = self.group._pair_clearance(a.detach(), b.detach(), w.detach())
            valid = valid & (clearance > margin)
        return w, valid

    def clearance(self, g: Tensor) -> Tensor:
        """Angle in radians between elements and the cut, `[...]`."""
        return self.group._clearance(g)

    def left_jacobian(self, x: Tensor) -> Tensor:
        """Derivative of `exp` from the left, `[..., dim, dim]`."""
        return _jacobians.left(self.group._adjoint_action, x)

    def right_jacobian(self, x: Tensor) -> Tensor:
        """Derivative of `exp` from the right, `[..., dim, dim]`."""
        return _jacobians.left(self.group._adjoint_action, -x)

    def checked(self, x: Tensor) -> Tensor:
        """Coordinates; those that the chart adds to the algebra's may be left out."""
        return checks.coordinates(self.group, x, (self.group.dim, self.dim))
