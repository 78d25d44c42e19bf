r"""The polar chart of Aff(n): coordinates for *every* invertible matrix.

Write $A = P R$ with P symmetric positive and R a rotation, $X = \log R$, $\log P = s I + S_0$.
The coordinates are $(u, X, s, S, p)$ with $S = e^{-X/2} S_0 e^{X/2}$, the translation
$u = V(X + s I)^{-1} V(S_0)^{-1} t$, and the parity p, 0 or 1, of a negative determinant.

They equal the principal logarithm on SE(n) and Sim(n), and those of the inverse element are the
negatives of those of the element. For det A < 0 the chart describes $A D^{-1}$ with
$D = -I$ (n = 3) or $D = \mathrm{diag}(1, -1)$ (n = 2); inversion then negates the coordinates up to
conjugation by D, so that the norm of every block still agrees.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import _expm, _gl2, _gl3, _rotations
from ._similarity import generator_matrix, inverse_left_jacobian, left_jacobian
from ._small import adjugate, eye_like, inverse, mul, mul_vec, trace


class Polar(NamedTuple):
    """Polar coordinates; `S` is the conjugated traceless part, `[..., n, n]`."""

    u: Tensor  # [..., n]
    omega: Tensor  # [..., 1] or [..., 3]
    s: Tensor  # [...]
    S: Tensor  # [..., n, n]
    parity: Tensor  # [...], 0 or 1


def log(a: Tensor, e: Tensor, t: Tensor) -> tuple[Polar, Tensor]:
    """Polar coordinates of (a, t), a = I + e, and where a is invertible."""
    det = adjugate(a)[1]
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
    X, y = _stretch_log(eye + excess, excess, t)
    rest = trace(X) / a.shape[-1]
    half = _rotation(omega / 2)
    S = mul(mul(half.mT, X - rest[..., None, None] * eye), half)
    s = s + rest
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
        R = _rotations.planar(theta)
        R_even = -2 * (theta / 2).sin().square()[..., None, None] * eye
        omega = theta[..., None]
    else:
        R = _rotations.polar_rotation(a)
        # skew(e) = skew(P R): solve for the skew part of R, whose even part is of second order.
        M = mul(a, R.mT)
        P = (M + M.mT) / 2
        R_even = (R + R.mT) / 2 - eye
        right = _rotations.axial(e) - _rotations.axial(mul(P, R_even))
        odd = mul_vec(inverse(trace(P)[..., None, None] * eye - P), right)
        w, v = _rotations.quaternion(R, 2 * odd)
        omega = _rotations.rotation_vector(w, v)
        R_even = 2 * (v[..., :, None] * v[..., None, :] - v.square().sum(-1)[..., None, None] * eye)
    moved = mul(e, R.mT)
    return omega, R_even + (moved + moved.mT) / 2


def _log_det(a: Tensor, e: Tensor) -> Tensor:
    if a.shape[-1] == 2:
        return 2 * _gl2.half_log_det(a, e)[0]
    near = e.abs().amax((-2, -1)) < 0.1
    adj, det_e = adjugate(torch.where(near[..., None, None], e, 0))
    excess = trace(torch.where(near[..., None, None], e, 0)) + trace(adj) + det_e
    far = torch.where(near, 1, adjugate(a)[1]).log()
    return torch.where(near, excess.log1p(), far)


def _stretch_log(P: Tensor, excess: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    if P.shape[-1] == 2:
        X, _ = _gl2.log(P, excess)
        return X, _gl2.inverse_left_jacobian(X, t)
    X, u, _ = _gl3.log(P, excess, t)
    return X, u
