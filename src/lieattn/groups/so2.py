"""SO(2), rotations of the plane (Section 3.1 of the paper)."""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from .._core.tensors import tensor
from . import checks
from . import rotations as _rotations
from ._bases import rotation_generators
from ._rigid import Rotations


class _SO2(Rotations):
    r"""Rotations `[..., 2, 2]`; one coordinate, $\sqrt 2$ times the angle.

    >>> import torch
    >>> from lieattn import SO2
    >>> quarter = SO2.from_angle(torch.tensor(torch.pi / 2))
    >>> SO2.to_physical(SO2.log(quarter))
    tensor([1.5708])
    """

    def _generators(self) -> Tensor:
        return rotation_generators(2)

    def _exp(self, x: Tensor) -> Tensor:
        return _rotations.planar(x[..., 0] / sqrt(2))

    def _log_excess(self, g: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        theta = _rotations.angle(g, e)
        return sqrt(2) * theta[..., None], theta.isfinite()

    def from_angle(self, theta: Tensor) -> Tensor:
        """Rotations `[..., 2, 2]` from angles in radians `[...]`."""
        return _rotations.planar(tensor(theta, "SO(2) angles"))

    def to_angle(self, g: Tensor) -> Tensor:
        """Angles in [-pi, pi], `[...]`."""
        return _rotations.angle(checks.poses(self, g), g)

    def _shape_hint(self, g: Tensor) -> str:
        return "For angles in radians use SO2.from_angle(theta)."


SO2 = _SO2("SO2", 2)
