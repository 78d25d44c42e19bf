"""Rotations of the plane and of space: the parts that SO, SE, Sim and the polar chart share.

Angles come from `atan2` or a polynomial in the quaternion's scalar part, never from `acos` of a
trace: acos has infinite slope at 1, which costs half the digits near the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import cross, eye_like, inverse, mul, mul_vec, trace
from .base import Draw
from .series import acos_ratio, jacobian_ratio, rotation_coefficients


def angle(a: Tensor, e: Tensor) -> Tensor:
    """Angle in [-pi, pi] of the rotation nearest to a 2x2 matrix `a = I + e`, up to scale."""
    return torch.atan2(e[..., 1, 0] - e[..., 0, 1], a[..., 0, 0] + a[..., 1, 1])


def angle_margin(a: Tensor) -> Tensor:
    """pi - |angle|, exact next to the half turn."""
    return torch.atan2((a[..., 1, 0] - a[..., 0, 1]).abs(), -(a[..., 0, 0] + a[..., 1, 1]))


def planar(theta: Tensor) -> Tensor:
    """Rotation by an angle, `[..., 2, 2]`."""
    c, s = theta.cos(), theta.sin()
    return torch.stack((torch.stack((c, -s), -1), torch.stack((s, c), -1)), dim=-2)


def quaternion(a: Tensor, twice_axial: Tensor) -> tuple[Tensor, Tensor]:
    """Unit quaternion of a rotation: scalar part w >= 0 `[...]` and vector part `[..., 3]`.

    `twice_axial` is `axial(a)`, which the caller may have with more digits than `a` has near the
    identity. The matrix `4 q q^T` is linear in the rotation; its column with the largest
    diagonal entry is q itself, up to a factor that is at least 2.
    """
    (a00, a01, a02), (a10, a11, a12), (a20, a21, a22) = (r.unbind(-1) for r in a.unbind(-2))
    wx, wy, wz = twice_axial.unbind(-1)
    xy, yz, zx = a10 + a01, a21 + a12, a02 + a20
    ww, xx = 1 + a00 + a11 + a22, 1 + a00 - a11 - a22
    yy, zz = 1 - a00 + a11 - a22, 1 - a00 - a11 + a22
    columns = (
        torch.stack((ww, wx, wy, wz), dim=-1),
        torch.stack((wx, xx, xy, zx), dim=-1),
        torch.stack((wy, xy, yy, yz), dim=-1),
        torch.stack((wz, zx, yz, zz), dim=-1),
    )
    low, best_low = torch.maximum(ww, xx), torch.where((ww >= xx)[..., None], *columns[:2])
    high, best_high = torch.maximum(yy, zz), torch.where((yy >= zz)[..., None], *columns[2:])
    q = torch.where((low >= high)[..., None], best_low, best_high)
    # Next to a half turn w comes from all three skew entries, not from the pivot's alone.
    pivot, v = torch.maximum(low, high), q[..., 1:]
    turned = pivot > ww
    square = torch.where(turned, v.square().sum(-1), 1)
    w = torch.where(turned, pivot * (twice_axial * v).sum(-1) / square, ww)
    scale = torch.where(w < 0, -1, 1) / (w.square() + v.square().sum(-1)).sqrt()
    return w * scale, v * scale[..., None]


def rotation_vector(w: Tensor, v: Tensor) -> Tensor:
    """Axis times angle of a unit quaternion with w >= 0, `[..., 3]`."""
    return acos_ratio(w)[..., None] * v


def rigid_inverse_jacobian(w: Tensor, v: Tensor, t: Tensor) -> Tensor:
    """V^-1 t for the rotation of a unit quaternion with w >= 0, no transcendental needed."""
    vt = cross(v, t)
    return t - (acos_ratio(w) / 2)[..., None] * vt + jacobian_ratio(w)[..., None] * cross(v, vt)


def quaternion_margin(w: Tensor, v: Tensor) -> Tensor:
    """pi - angle of a unit quaternion with w >= 0, exact next to the half turn."""
    return 2 * torch.atan2(w, v.square().sum(-1).sqrt())


def rodrigues(omega: Tensor) -> Tensor:
    """Rotation about `omega` by its length, `[..., 3, 3]`."""
    a, b, _ = rotation_coefficients(omega.square().sum(-1))
    K = skew(omega)
    # K^2 = omega omega^T - |omega|^2 I: cheaper than a product, and exactly symmetric.
    square = omega[..., :, None] * omega[..., None, :]
    square = square - omega.square().sum(-1)[..., None, None] * eye_like(K)
    return eye_like(K) + a[..., None, None] * K + b[..., None, None] * square


def rigid_jacobian(omega: Tensor, v: Tensor) -> Tensor:
    """V(omega) v, `[..., 3]`."""
    _, b, c = rotation_coefficients(omega.square().sum(-1))
    once = cross(omega, v)
    return v + b[..., None] * once + c[..., None] * cross(omega, once)


def skew(omega: Tensor) -> Tensor:
    """Cross-product matrix of `[..., 3]`."""
    x, y, z = omega.unbind(-1)
    o = torch.zeros_like(x)
    rows = ((o, -z, y), (z, o, -x), (-y, x, o))
    return torch.stack([torch.stack(row, -1) for row in rows], dim=-2)


def axial(a: Tensor) -> Tensor:
    """(a32 - a23, a13 - a31, a21 - a12): twice the axial vector of the skew part."""
    return torch.stack(
        (
            a[..., 2, 1] - a[..., 1, 2],
            a[..., 0, 2] - a[..., 2, 0],
            a[..., 1, 0] - a[..., 0, 1],
        ),
        dim=-1,
    )


def matrix_from_quaternion(w: Tensor, v: Tensor) -> Tensor:
    """Rotation matrix of a quaternion of any non-zero length."""
    norm = (w.square() + v.square().sum(-1)).sqrt()
    w, v = w / norm, v / norm[..., None]
    K = skew(v)
    square = v[..., :, None] * v[..., None, :] - v.square().sum(-1)[..., None, None] * eye_like(K)
    return eye_like(K) + 2 * w[..., None, None] * K + 2 * square


def from_columns(x: Tensor) -> Tensor:
    """Rotations whose first two columns are those of `[..., 6]`, made orthonormal in turn."""
    first, second = x[..., :3], x[..., 3:]
    e = first / first.square().sum(-1, keepdim=True).sqrt()
    f = second
    for _ in range(2):  # twice: next to parallel, one pass leaves rounding along e
        rest = f - (e * f).sum(-1, keepdim=True) * e
        f = rest / rest.square().sum(-1, keepdim=True).sqrt()
    return torch.stack((e, f, cross(e, f)), dim=-1)


def nearest_rotation(a: Tensor) -> Tensor:
    """Rotation nearest to a 2x2 or 3x3 matrix in the Frobenius norm, det a <= 0 included."""
    if a.shape[-1] == 2:
        return planar(angle(a, a))
    with torch.no_grad():
        U, _, Vh = torch.linalg.svd(a.detach())
        flip = torch.linalg.det(U) * torch.linalg.det(Vh)
        U = torch.cat((U[..., :2], U[..., 2:] * flip.sign()[..., None, None]), dim=-1)
        R = U @ Vh
    return _polish(a, R)


def polar_rotation(a: Tensor) -> Tensor:
    """Rotation factor R of `a = P R`, P symmetric positive, for 3x3 matrices with det a > 0.

    Newton's iteration with the scaling of Higham gives the value without a host sync.
    """
    with torch.no_grad():
        R = a.detach() / a.detach().abs().amax((-2, -1), keepdim=True)
        for _ in range(9):
            inv = inverse(R).mT
            scale = (_norm_product(inv) / _norm_product(R)).pow(0.25)[..., None, None]
            R = (scale * R + inv / scale) / 2
    return _polish(a, R)


def _norm_product(a: Tensor) -> Tensor:
    size = a.abs()
    return size.sum(-1).amax(-1) * size.sum(-2).amax(-1)


def _polish(a: Tensor, R: Tensor) -> Tensor:
    """Two Newton steps on SO(3) from a constant R: they carry the derivatives with respect to a.

    Each step solves `(tr(P) I - P) omega = axial(a R^T)`. One step is exact to first order in a,
    two to third: gradients and double gradients are those of the exact factor, and singular values
    may coincide.
    """
    for _ in range(2):
        M = mul(a, R.mT)
        P = (M + M.mT) / 2
        omega = mul_vec(inverse(trace(P)[..., None, None] * eye_like(P) - P), axial(M))
        R = mul(rodrigues(omega), R)
    return R


def haar(n: int, batch: tuple[int, ...], draw: Draw) -> Tensor:
    """Uniformly distributed rotations, `[*batch, n, n]`."""
    if n == 2:
        return planar((2 * draw.uniform(*batch) - 1) * torch.pi)
    q = draw.normal(*batch, 4)
    return matrix_from_quaternion(q[..., 0], q[..., 1:])


def margin(a: Tensor) -> Tensor:
    """pi minus the rotation angle of a 2x2 or 3x3 rotation."""
    if a.shape[-1] == 2:
        return angle_margin(a)
    return quaternion_margin(*quaternion(a, axial(a)))


def defects(a: Tensor) -> list[tuple[Tensor, float, str]]:
    """Conditions on a rotation matrix, in the form that `Group._defect` returns."""
    tolerance = 1e-4 if a.dtype == torch.float32 else 1e-8
    gram = (a.mT @ a - eye_like(a)).abs().amax((-2, -1))
    reflected = torch.where(torch.linalg.det(a) > 0, 0.0, 1.0)
    return [
        (
            gram,
            tolerance,
            "its rotation part is not orthogonal, |R^T R - I| = {by} (tolerance {tolerance}). "
            "{group}.project(g) gives the nearest element.",
        ),
        (
            reflected,
            0.5,
            "its rotation part is a reflection (negative determinant). Swap or flip an axis, or "
            "{group}.project(g) for the nearest proper rotation.",
        ),
    ]
