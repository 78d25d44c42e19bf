"""SE(3), rigid motions of space (Section 3.4 of the paper)."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from . import _rotations, _validate
from ._rigid import RigidMotions
from ._small import cross, homogeneous
from .so3 import SO3


class _SE3(RigidMotions):
    r"""Rigid motions `[..., 4, 4]`; coordinates translation (3), rotation (3).

    $\log(R, t) = (V(\omega)^{-1} t, \sqrt 2\,\omega)$, both from the quaternion of R without a
    transcendental function. Domain: angle < pi; at a half turn one of the two valid values.

    >>> from lieattn import SE3
    >>> g = SE3.from_quaternion_wxyz(torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 2, 3]))
    >>> SE3.log(g)
    tensor([1., 2., 3., 0., 0., 0.])
    """

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        v, omega = x[..., :3], x[..., 3:] / sqrt(2)
        return _rotations.rodrigues(omega), _rotations.rigid_jacobian(omega, v)

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        q = _rotations.quaternion(a, _rotations.axial(e))
        u = _rotations.rigid_inverse_jacobian(*q, t)
        w = torch.cat((u, sqrt(2) * _rotations.rotation_vector(*q)), dim=-1)
        return w, w.isfinite().all(-1)

    def from_quaternion_xyzw(self, q: Tensor, t: Tensor) -> Tensor:
        """Poses from quaternions (x, y, z, w) `[..., 4]` and translations `[..., 3]`."""
        return self.from_parts(SO3.from_quaternion_xyzw(q), t)

    def from_quaternion_wxyz(self, q: Tensor, t: Tensor) -> Tensor:
        """Poses from quaternions (w, x, y, z) `[..., 4]` and translations `[..., 3]`."""
        return self.from_parts(SO3.from_quaternion_wxyz(q), t)

    def to_quaternion_xyzw(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Unit quaternions (x, y, z, w), w >= 0, and translations."""
        _validate.poses(self, g)
        return SO3.to_quaternion_xyzw(self.linear(g)), self.translation(g)

    def to_quaternion_wxyz(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Unit quaternions (w, x, y, z), w >= 0, and translations."""
        _validate.poses(self, g)
        return SO3.to_quaternion_wxyz(self.linear(g)), self.translation(g)

    def from_backbone(self, n: Tensor, ca: Tensor, c: Tensor) -> Tensor:
        """Protein residue frames from the positions of N, CA and C, each `[..., 3]`.

        The origin is CA, the x axis points to C, N lies in the xy plane with y > 0 (the frame of
        AlphaFold 2). Three atoms on a line define no frame: the pose is NaN and `check` says so.
        """
        for name, atom in (("N", n), ("CA", ca), ("C", c)):
            _validate.vectors(atom, 3, f"positions of {name}")
        x = _normalised(c - ca)
        z = _normalised(cross(x, n - ca))
        return homogeneous(torch.stack((x, cross(z, x), z), dim=-1), ca)

    def _shape_hint(self, g: Tensor) -> str:
        if g.shape[-1:] in ((7,), (4,)) and g.shape[-2:] != (3, 4):
            return (
                "For a quaternion and a translation use SE3.from_quaternion_xyzw(q, t) or "
                "SE3.from_quaternion_wxyz(q, t)."
            )
        return super()._shape_hint(g)


def _normalised(v: Tensor) -> Tensor:
    return v / v.square().sum(-1, keepdim=True).sqrt()


SE3 = _SE3("SE3", 3)
