"""SE(2), rigid motions of the plane (Section 3.2 of the paper)."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from .._core.small import homogeneous
from .._core.tensors import vectors
from . import checks
from . import rotations as _rotations
from ._rigid import RigidMotions
from .series import half_cot, rotation_coefficients


def _quarter_turn(v: Tensor) -> Tensor:
    return torch.stack((-v[..., 1], v[..., 0]), dim=-1)


class _SE2(RigidMotions):
    r"""Rigid motions `[..., 3, 3]`; coordinates translation (2), rotation (1).

    $\log(R(\theta), t) = (V(\theta)^{-1} t, \sqrt 2\,\theta)$ with
    $V^{-1} = \frac\theta2\cot\frac\theta2\, I - \frac\theta2 J$. Domain: |theta| < pi; at a half
    turn one of the two valid values.

    >>> from lieattn import SE2
    >>> g = SE2.from_xy_theta(torch.tensor([3.0, 1.0, torch.pi / 2]))
    >>> SE2.exp(SE2.log(g)).allclose(g, atol=1e-6)
    True
    """

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        v, theta = x[..., :2], x[..., 2] / sqrt(2)
        a, b, _ = rotation_coefficients(theta.square())
        t = a[..., None] * v + (b * theta)[..., None] * _quarter_turn(v)
        return _rotations.planar(theta), t

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        theta = _rotations.angle(a, e)
        u = half_cot(theta.square())[..., None] * t - (theta / 2)[..., None] * _quarter_turn(t)
        w = torch.cat((u, sqrt(2) * theta[..., None]), dim=-1)
        return w, w.isfinite().all(-1)

    def from_xy_theta(self, rows: Tensor) -> Tensor:
        """Poses `[..., 3, 3]` from rows (x, y, theta), theta in radians, `[..., 3]`."""
        vectors(rows, 3, "SE(2) rows (x, y, theta)")
        return homogeneous(_rotations.planar(rows[..., 2]), rows[..., :2])

    def to_xy_theta(self, g: Tensor) -> Tensor:
        """Rows (x, y, theta), theta in [-pi, pi], `[..., 3]`."""
        checks.poses(self, g)
        theta = _rotations.angle(self.linear(g), self.linear(g))
        return torch.cat((self.translation(g), theta[..., None]), dim=-1)

    def _shape_hint(self, g: Tensor) -> str:
        rows = "For (x, y, theta) rows use SE2.from_xy_theta(rows)."
        return super()._shape_hint(g) or (rows if g.shape[-1:] == (3,) else "")


SE2 = _SE2("SE2", 2)
