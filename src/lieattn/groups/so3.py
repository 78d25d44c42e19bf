"""SO(3), rotations of space (Section 3.3 of the paper)."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from .._core.tensors import vectors
from . import _scipy, checks
from . import rotations as _rotations
from ._bases import rotation_generators
from ._rigid import Rotations
from .base import Device


class _SO3(Rotations):
    r"""Rotations `[..., 3, 3]`; coordinates $\sqrt 2$ times axis times angle.

    The logarithm goes through the quaternion: with c its scalar part and v its vector part,
    $\omega = f(c)\, v$, $f(c) = 2 \arccos(c) / \sqrt{1 - c^2}$, a polynomial on [0, 1].

    >>> from lieattn import SO3
    >>> R = SO3.from_quaternion_xyzw(torch.tensor([0.0, 0.0, 1.0, 1.0]))
    >>> SO3.to_physical(SO3.log(R))  # a quarter turn about z
    tensor([0.0000, 0.0000, 1.5708])
    """

    def _generators(self) -> Tensor:
        return rotation_generators(3)

    def _exp(self, x: Tensor) -> Tensor:
        return _rotations.rodrigues(x / sqrt(2))

    def _log_excess(self, g: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        w = sqrt(2) * _rotations.rotation_vector(*_rotations.quaternion(g, _rotations.axial(e)))
        return w, w.isfinite().all(-1)

    def from_quaternion_xyzw(self, q: Tensor) -> Tensor:
        """Rotations from quaternions (x, y, z, w) of any non-zero length, `[..., 4]`."""
        vectors(q, 4, "quaternions (x, y, z, w)")
        return _rotations.matrix_from_quaternion(q[..., 3], q[..., :3])

    def from_quaternion_wxyz(self, q: Tensor) -> Tensor:
        """Rotations from quaternions (w, x, y, z) of any non-zero length, `[..., 4]`."""
        vectors(q, 4, "quaternions (w, x, y, z)")
        return _rotations.matrix_from_quaternion(q[..., 0], q[..., 1:])

    def to_quaternion_xyzw(self, g: Tensor) -> Tensor:
        """Unit quaternions (x, y, z, w) with w >= 0, `[..., 4]`."""
        w, v = _rotations.quaternion(checks.poses(self, g), _rotations.axial(g))
        return torch.cat((v, w[..., None]), dim=-1)

    def to_quaternion_wxyz(self, g: Tensor) -> Tensor:
        """Unit quaternions (w, x, y, z) with w >= 0, `[..., 4]`."""
        w, v = _rotations.quaternion(checks.poses(self, g), _rotations.axial(g))
        return torch.cat((w[..., None], v), dim=-1)

    def from_6d(self, x: Tensor) -> Tensor:
        """Rotations from their first two columns, one after the other, `[..., 6]`.

        The continuous representation of Zhou et al. (2019): any two vectors that are not parallel,
        made orthonormal by Gram and Schmidt. Parallel ones define no rotation: what comes out is
        NaN, or hangs on rounding.

        >>> from lieattn import SO3
        >>> SO3.from_6d(torch.tensor([2.0, 0.0, 0.0, 1.0, 3.0, 0.0])).equal(torch.eye(3))
        True
        """
        return _rotations.from_columns(vectors(x, 6, "the first two columns of rotations"))

    def to_6d(self, g: Tensor) -> Tensor:
        """First two columns of rotations, one after the other, `[..., 6]`.

        pytorch3d's `matrix_to_rotation_6d` gives the first two rows: those of `g.mT`.
        """
        return checks.poses(self, g)[..., :2].mT.flatten(-2)

    def from_scipy(
        self, rotation: Any, *, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        """Rotations of a `scipy.spatial.transform.Rotation`, `[N, 3, 3]` or `[3, 3]`."""
        return _scipy.matrices(rotation, dtype, device)

    def to_scipy(self, g: Tensor) -> Any:
        """A `scipy.spatial.transform.Rotation`; of poses `[..., 3, 3]` with batches flattened."""
        return _scipy.rotation(self.to_quaternion_xyzw(g))

    def _shape_hint(self, g: Tensor) -> str:
        if g.shape[-1:] == (4,):
            return "For quaternions use SO3.from_quaternion_xyzw or SO3.from_quaternion_wxyz."
        if g.shape[-1:] == (6,):
            return "For the first two columns of rotations use SO3.from_6d(x)."
        if g.shape[-1:] == (3,):
            return "For rotation vectors use SO3.exp(SO3.from_physical(omega))."
        return ""


SO3 = _SO3("SO3", 3)
