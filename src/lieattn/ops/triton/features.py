"""What the Triton kernels read of a pose, and the way back from their gradients to poses: O(N)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..._core.small import accurate_inverse, eye_like, homogeneous, mul, mul_vec
from ...groups import get_group
from ...groups import rotations as _rotations


class Family(NamedTuple):
    """How a group is handled: which of the kernel's six coordinates are its own."""

    affine: bool
    coordinates: tuple[int, ...]


# Rigid motions of the plane are those of space that keep it.
FAMILIES = {
    "SO2": Family(False, (5,)),
    "SE2": Family(False, (0, 1, 5)),
    "SO3": Family(False, (3, 4, 5)),
    "SE3": Family(False, (0, 1, 2, 3, 4, 5)),
    "Aff2": Family(True, (0, 1, 2, 3, 4, 5)),
}


def features(group: str, poses: Tensor) -> Tensor:
    """Rows `[B, F, N]`, float32, of poses `[B, N, m, m]`; one not admitted has zeros and ok = 0.

    Rigid: quaternion (4), its low half (4), t (3), ok, R (9). Aff(2): A (4), t (2), ok.
    """
    ok = get_group(group).admits(poses)
    if FAMILIES[group].affine:
        A, t = poses[..., :2, :2], poses[..., :2, 2]
        parts = [A.flatten(-2), t, ok[..., None].float()]
    else:
        R, t = _in_space(group, poses)
        exact = _unit_quaternion(torch.where(ok[..., None, None], R, eye_like(R)))
        ok = ok & exact.isfinite().all(-1)
        quaternion = exact.float()
        low = (exact - quaternion).float()
        parts = [quaternion, low, t, ok[..., None].float(), R.flatten(-2)]
    rows = torch.where(ok[..., None], torch.cat(parts, dim=-1), 0)
    return rows.mT.contiguous()


def pose_gradient(group: str, rows: Tensor, gradient: Tensor, query: bool) -> Tensor:
    """Gradient `[B, N, m, m]` with respect to poses from the kernel's six numbers `[B, N, 6]`.

    Of rigid motions it is the gradient along the group: the ambient one, projected on its tangent
    space. Of Aff(2), an open set of matrices, the two are one. `rows` are the features.
    """
    if FAMILIES[group].affine:
        linear, t = gradient[..., :4].unflatten(-1, (2, 2)), gradient[..., 4:]
        if query:
            # Along the group so far; in float64, since A^-1 may undo what A has done.
            ok, A = rows[..., 6, :] > 0, rows[..., :4, :].mT.unflatten(-1, (2, 2)).double()
            inverse = accurate_inverse(torch.where(ok[..., None, None], A, eye_like(A))).mT
            linear, t = mul(inverse, linear.double()), mul_vec(inverse, t.double())
        return _without_last_row(homogeneous(linear, t).float())
    R = rows[..., 12:, :].mT.unflatten(-1, (3, 3))
    linear, t = mul(R, _rotations.skew(gradient[..., 3:])) / 2, mul_vec(R, gradient[..., :3])
    n = int(group[-1])
    if group.startswith("SO"):
        return linear[..., :n, :n]
    return _without_last_row(homogeneous(linear[..., :n, :n], t[..., :n]))


def _without_last_row(g: Tensor) -> Tensor:
    """The last row of a pose is constant: no gradient."""
    return torch.cat((g[..., :-1, :], torch.zeros_like(g[..., -1:, :])), dim=-2)


def _in_space(group: str, poses: Tensor) -> tuple[Tensor, Tensor]:
    """R `[..., 3, 3]` and t `[..., 3]` of rigid motions of the plane or of space."""
    if group == "SO3":
        return poses, torch.zeros_like(poses[..., 0])
    if group == "SE3":
        return poses[..., :3, :3], poses[..., :3, 3]
    t = poses[..., :2, 2] if group == "SE2" else torch.zeros_like(poses[..., 0])
    zero = torch.zeros_like(t)
    return homogeneous(poses[..., :2, :2], zero), torch.cat((t, zero[..., :1]), dim=-1)


def _unit_quaternion(R: Tensor) -> Tensor:
    """Quaternions (w, x, y, z) in float64 of the rotations nearest to R.

    Nearest, since the reference measures the rotation between neighbours by the skew part of
    `R_i^T (R_j - R_i)`, which the rounding of R reaches as it reaches the polar factor. A
    quaternion by pivots would take other digits of that rounding: 6e-8 of an angle, however small.
    """
    R = R.double()
    for _ in range(2):  # Newton-Schulz: an error of 1e-4 becomes 1e-8, then 1e-16
        R = mul(R, 3 * eye_like(R) - mul(R.mT, R)) / 2
    w, v = _rotations.quaternion(R, _rotations.axial(R))
    return torch.cat((w[..., None], v), dim=-1)
