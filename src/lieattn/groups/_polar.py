r"""The polar chart of Aff(n): coordinates for *every* invertible matrix.

Write $A = P R$ with P symmetric positive and R a rotation, $X = \log R$, $\log P = s I + S_0$.
The coordinates are $(u, X, s, S, p)$ with $S = e^{-X/2} S_0 e^{X/2}$, the translation
$u = V(X + s I)^{-1} V(S_0)^{-1} t$, and the parity p, 0 or 1, of a negative determinant.

They equal the principal logarithm on SE(n) and Sim(n), and those of the inverse element are the
negatives of those of the element. For det A < 0 the chart describes $A D^{-1}$ with
$D = -I$ (n = 3) or $D = \mathrm{diag}(1, -1)$ (n = 2); inversion then negates the coordinates up to
conjugation by D, so that the norm of every block still agrees.

At a half turn R has two logarithms, and the coordinates two values of equal norms. Rounding decides
between them there; `beside_cut` takes the one on a fixed side instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.small import (
    accurate_adjugate,
    accurate_inverse,
    adjugate,
    cross,
    eye_like,
    inverse,
    mul,
    mul_vec,
    trace,
)
from . import _expm, _gl2, _gl3
from . import rotations as _rotations
from ._similarity import generator_matrix, inverse_left_jacobian, left_jacobian
from .series import log_coefficient


class Polar(NamedTuple):
    """Polar coordinates; `S` is the conjugated traceless part, `[..., n, n]`."""

    u: Tensor  # [..., n]
    omega: Tensor  # [..., 1] or [..., 3]
    s: Tensor  # [...]
    S: Tensor  # [..., n, n]
    parity: Tensor  # [...], 0 or 1


def log(a: Tensor, e: Tensor, t: Tensor) -> tuple[Polar, Tensor]:
    """Polar coordinates of (a, t), a = I + e, and where a is invertible."""
    det = accurate_adjugate(a)[1]
    valid = det.isfinite() & (det != 0) & t.isfinite().all(-1)
    negative = valid & (det < 0)
    eye = eye_like(a)
    proper = mul(a, _reflection(a))
    a = torch.where(negative[..., None, None], proper, a)
    e = torch.where(negative[..., None, None], proper - eye, e)
    a = torch.where(valid[..., None, None], a, eye)
    e = torch.where(valid[..., None, None], e, 0)
    t = torch.where(valid[..., None], t, 0)

    omega, P_excess = _rotation_and_stretch(a, e)
    s = _log_det(a, e) / a.shape[-1]
    # Excess of P / e^s over the identity, each part small where P is near the identity.
    excess = (P_excess - s.expm1()[..., None, None] * eye) * (-s).exp()[..., None, None]
    if a.shape[-1] == 2:
        S0, y = _planar_stretch_log(excess, t)
    else:
        P_inverse = mul(_rotation(omega), accurate_inverse(a)) * s.exp()[..., None, None]
        S0, y = _stretch_log(excess, P_inverse, t)
    half = _rotation(omega / 2)
    S = mul(mul(half.mT, S0), half)
    return Polar(inverse_left_jacobian(omega, s, y), omega, s, S, negative.to(a.dtype)), valid


def exp(x: Polar) -> tuple[Tensor, Tensor]:
    """Linear part and translation of polar coordinates: the inverse of `log`."""
    half = _rotation(x.omega / 2)
    S0 = mul(mul(half, x.S), half.mT)
    stretch = _gl2.exp(S0) if S0.shape[-1] == 2 else _expm.expm(S0)
    a = mul(stretch, _rotation(x.omega)) * x.s.exp()[..., None, None]
    t = left_jacobian(S0, left_jacobian(generator_matrix(x.omega, x.s), x.u))
    a = torch.where((x.parity > 0.5)[..., None, None], mul(a, _reflection(a)), a)
    return a, t


# Axes of half turns are rarely orthogonal to it: of those with whole numbers up to 3, and of
# multiples of 7.5 degrees in planes of two axes, none is within a degree of that.
SIDE = (0.345, 0.315, 0.884)


def beside_cut(x: Polar, margin: float) -> Polar:
    """Coordinates of the same elements, those within `margin` of a half turn all on one side.

    There the angle is taken about the axis that has a positive product with a fixed direction, and
    may be up to pi + margin. This moves the cut from pi, where data lie, to pi - margin.
    """
    omega = x.omega
    side = torch.tensor(SIDE[: omega.shape[-1]], dtype=omega.dtype, device=omega.device)
    angle = omega.detach().square().sum(-1).sqrt()
    moved = (angle > torch.pi - margin) & ((omega.detach() * side).sum(-1) < 0)
    # Elsewhere any axis: the root of a square has no slope at 0.
    safe = torch.where(moved[..., None], omega, -torch.pi * side)
    other = _other_value(x._replace(omega=safe))
    return Polar(
        torch.where(moved[..., None], other.u, x.u),
        torch.where(moved[..., None], other.omega, omega),
        x.s,
        torch.where(moved[..., None, None], other.S, x.S),
        x.parity,
    )


def _other_value(x: Polar) -> Polar:
    r"""Coordinates of the same elements with the rotation taken the other way round its axis.

    In the plane of the rotation $V^{-1}$ is $z / (e^z - 1)$ with $z = s + i \theta$, and
    $e^z$ is that of $z' = z - 2 \pi i$: u is multiplied by $z' / z$ there, and stays along the
    axis. $e^{X'/2}$ is $e^{X/2}$ times a half turn, with which S is conjugated.
    """
    theta = x.omega.square().sum(-1, keepdim=True).sqrt()
    axis, back, s = x.omega / theta, theta - 2 * torch.pi, x.s[..., None]
    if x.omega.shape[-1] == 1:
        across, ahead = x.u, axis * torch.stack((-x.u[..., 1], x.u[..., 0]), dim=-1)
        S = x.S
    else:
        across, ahead = x.u - axis * (axis * x.u).sum(-1, keepdim=True), cross(axis, x.u)
        half_turn = 2 * axis[..., :, None] * axis[..., None, :] - eye_like(x.S)
        S = mul(mul(half_turn, x.S), half_turn)
    product = (s.square() + theta * back) * across - 2 * torch.pi * s * ahead
    u = x.u - across + product / (s.square() + theta.square())
    return Polar(u, axis * back, x.s, S, x.parity)


def margin(a: Tensor) -> Tensor:
    """Angle by which the rotation factor misses a half turn; 0 where a is singular."""
    det = adjugate(a)[1]
    valid = det.isfinite() & (det != 0)
    proper = torch.where((det < 0)[..., None, None], mul(a, _reflection(a)), a)
    proper = torch.where(valid[..., None, None], proper, eye_like(a))
    R = proper if a.shape[-1] == 2 else _rotations.polar_rotation(proper)
    return torch.where(valid, _rotations.margin(R), 0)


def _reflection(a: Tensor) -> Tensor:
    n = a.shape[-1]
    signs = [1.0, -1.0] if n == 2 else [-1.0] * n
    return torch.diag(torch.tensor(signs, dtype=a.dtype, device=a.device))


def _rotation(omega: Tensor) -> Tensor:
    if omega.shape[-1] == 1:
        return _rotations.planar(omega[..., 0])
    return _rotations.rodrigues(omega)


def _rotation_and_stretch(a: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Rotation vector of R, and P - I, of a = P R; both exact near the identity."""
    eye = eye_like(a)
    if a.shape[-1] == 2:
        theta = _rotations.angle(a, e)
        moved = mul(e, _rotations.planar(theta).mT)
        even = -2 * (theta / 2).sin().square()[..., None, None] * eye
        return theta[..., None], even + (moved + moved.mT) / 2
    R = _rotations.polar_rotation(a)
    M = mul(a, R.mT)
    P = (M + M.mT) / 2
    near = (e.abs().amax((-2, -1)) < 0.25)[..., None]
    # skew(e) = skew(P R): solve for the skew part of R, whose even part is of second order.
    right = _rotations.axial(e) - _rotations.axial(mul(P, (R + R.mT) / 2 - eye))
    odd = mul_vec(inverse(trace(P)[..., None, None] * eye - P), right)
    w, v = _rotations.quaternion(R, torch.where(near, 2 * odd, _rotations.axial(R)))
    even = 2 * (v[..., :, None] * v[..., None, :] - v.square().sum(-1)[..., None, None] * eye)
    moved = mul(e, R.mT)
    excess = torch.where(near[..., None], even + (moved + moved.mT) / 2, P - eye)
    return _rotations.rotation_vector(w, v), excess


def _log_det(a: Tensor, e: Tensor) -> Tensor:
    if a.shape[-1] == 2:
        return 2 * _gl2.half_log_det(a, e)[0]
    near = e.abs().amax((-2, -1)) < 0.1
    adj, det_e = adjugate(torch.where(near[..., None, None], e, 0))
    excess = trace(torch.where(near[..., None, None], e, 0)) + trace(adj) + det_e
    far = torch.where(near, 1, accurate_adjugate(a)[1]).log()
    return torch.where(near, excess.log1p(), far)


def _planar_stretch_log(excess: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """S0 = log P and V(S0)^-1 t for 2x2 P = I + excess of determinant 1.

    The larger eigenvalue decides: that the determinant is 1 gives the smaller one for free.
    """
    _, N, q = _gl2.split(excess)
    S0 = log_coefficient((1 + q).sqrt(), q, torch.ones_like(q))[..., None, None] * N
    return S0, _gl2.inverse_left_jacobian(S0, t)


def _stretch_log(excess: Tensor, P_inverse: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """S0 = log P and V(S0)^-1 t for symmetric positive 3x3 P = I + excess of determinant 1.

    Small eigenvalues of P carry the rounding of the large ones. In P^-1 they are the large ones:
    its logarithm corrects the value at that end of the spectrum (the gradient needs no correction).
    """
    eye = eye_like(excess)
    P = eye + excess
    X, u, _ = _gl3.log(P, excess, t)
    with torch.no_grad():
        P_inverse = (P_inverse + P_inverse.mT) / 2
        back = _gl3.log(P_inverse, P_inverse - eye, mul_vec(P_inverse, t))
        ratio = (P.square().sum((-2, -1)) / P_inverse.square().sum((-2, -1))).sqrt()
        lower = mul(P_inverse, inverse(P / ratio[..., None, None] + P_inverse))
        gap = mul(lower, X + back.X)
        X_correction, u_correction = -(gap + gap.mT) / 2, mul_vec(lower, back.u - u)
    X, u = X + X_correction, u + u_correction
    return X - trace(X)[..., None, None] / 3 * eye, u
