"""SE(3), rigid motions of space (Section 3.4 of the paper)."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from .._core.small import cross, homogeneous
from .._core.tensors import vectors
from . import checks
from . import rotations as _rotations
from ._rigid import RigidMotions
from .base import Device
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
        checks.poses(self, g)
        return SO3.to_quaternion_xyzw(self.linear(g)), self.translation(g)

    def to_quaternion_wxyz(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Unit quaternions (w, x, y, z), w >= 0, and translations."""
        checks.poses(self, g)
        return SO3.to_quaternion_wxyz(self.linear(g)), self.translation(g)

    def from_backbone(self, n: Tensor, ca: Tensor, c: Tensor) -> Tensor:
        """Protein residue frames from the positions of N, CA and C, each `[..., 3]`.

        The origin is CA, the x axis points to C, N lies in the xy plane with y > 0 (the frame of
        AlphaFold 2). Three atoms on a line define no frame: the pose is NaN and `check` says so.
        """
        for name, atom in (("N", n), ("CA", ca), ("C", c)):
            vectors(atom, 3, f"positions of {name}")
        x = _normalised(c - ca)
        z = _normalised(cross(x, n - ca))
        return homogeneous(torch.stack((x, cross(z, x), z), dim=-1), ca)

    def from_6d(self, x: Tensor, t: Tensor) -> Tensor:
        """Poses from two columns of rotations `[..., 6]` (`SO3.from_6d`) and translations."""
        return self.from_parts(SO3.from_6d(x), t)

    def to_6d(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """First two columns of rotations `[..., 6]`, and translations `[..., 3]`."""
        checks.poses(self, g)
        return SO3.to_6d(self.linear(g)), self.translation(g)

    def from_dual_quaternion(self, q: Tensor) -> Tensor:
        r"""Poses from dual quaternions $q_r + \epsilon q_d$, real part first, `[..., 8]`.

        Both parts are (w, x, y, z), and $q_d = \tfrac12 t\, q_r$. They may have any length, and
        $q_d$ a part along $q_r$, which no motion has: it is left out.

        >>> from lieattn import SE3
        >>> g = SE3.from_dual_quaternion(torch.tensor([1.0, 0, 0, 0, 0, 0.5, 1.0, 1.5]))
        >>> SE3.translation(g)
        tensor([1., 2., 3.])
        """
        vectors(q, 8, "dual quaternions (w, x, y, z of the real part, then of the dual one)")
        real, dual = q[..., :4], q[..., 4:]
        w, v = real[..., :1], real[..., 1:]
        # The vector part of 2 q_d q_r*, over |q_r|^2.
        t = w * dual[..., 1:] - dual[..., :1] * v - cross(dual[..., 1:], v)
        return self.from_quaternion_wxyz(real, 2 * t / real.square().sum(-1, keepdim=True))

    def to_dual_quaternion(self, g: Tensor) -> Tensor:
        """Unit dual quaternions `[..., 8]`, (w, x, y, z) of the real part, w >= 0, then the dual.

        >>> from lieattn import SE3
        >>> SE3.to_dual_quaternion(SE3.identity())
        tensor([1., 0., 0., 0., 0., 0., 0., 0.])
        """
        real, t = self.to_quaternion_wxyz(g)
        w, v = real[..., :1], real[..., 1:]
        dual = (0 - (t * v).sum(-1, keepdim=True), w * t + cross(t, v))
        return torch.cat((real, *(part / 2 for part in dual)), dim=-1)

    def from_scipy(
        self,
        rotation: Any,
        t: Tensor,
        *,
        dtype: torch.dtype | None = None,
        device: Device = None,
    ) -> Tensor:
        """Poses of a `scipy.spatial.transform.Rotation` and translations `[..., 3]`."""
        return self.from_parts(SO3.from_scipy(rotation, dtype=dtype, device=device), t)

    def to_scipy(self, g: Tensor) -> tuple[Any, Tensor]:
        """A `scipy.spatial.transform.Rotation`, batches flattened, and translations `[..., 3]`."""
        checks.poses(self, g)
        return SO3.to_scipy(self.linear(g)), self.translation(g)

    def opencv_to_opengl(self, camera_to_world: Tensor) -> Tensor:
        """Camera poses of OpenCV as those of OpenGL, `[..., 4, 4]`; the world stays as it is.

        OpenCV's camera (COLMAP's too) has x to the right, y down and looks along z; OpenGL's
        (Blender's, NeRF's) has x to the right, y up and looks along -z. The y and z axes of the
        camera flip, which multiplies a camera-to-world pose by diag(1, -1, -1, 1) from the right.
        For world-to-camera poses take `inverse` first.

        >>> from lieattn import SE3
        >>> SE3.opencv_to_opengl(SE3.identity()).diagonal()
        tensor([ 1., -1., -1.,  1.])
        """
        g = checks.poses(self, camera_to_world, "camera poses")
        return g * torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=g.dtype, device=g.device)

    def opengl_to_opencv(self, camera_to_world: Tensor) -> Tensor:
        """Camera poses of OpenGL as those of OpenCV, `[..., 4, 4]`: see `opencv_to_opengl`."""
        return self.opencv_to_opengl(camera_to_world)  # the flip undoes itself

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
