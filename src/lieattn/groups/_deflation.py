"""First square root of a 3x3 matrix: orthogonal deflation, then closed forms. Values only.

Backward stable however close a pair of eigenvalues comes to the negative axis, and the judge of
whether the matrix is on the principal chart at all. `_gl3` supplies the derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from . import _gl2
from ._small import (
    accurate_adjugate,
    adjugate,
    cross,
    eye_like,
    inverse,
    mul,
    mul_vec,
    trace,
    widen,
)

_RESIDUAL = 1e-3  # of the root: 1e-6 and less on the chart, of order 1 off it

Invariants = tuple[Tensor, Tensor, Tensor]  # sqrt(lam), trace and determinant of sqrt(B)


class _Deflated(NamedTuple):
    """`A = Q [[B, r], [0, lam]] Q` with Q a reflection."""

    Q: Tensor  # [..., 3, 3]
    B: Tensor  # [..., 2, 2]
    r: Tensor  # [..., 2]
    lam: Tensor  # [...]


class Root(NamedTuple):
    """Square root `Q [[P, r], [0, lam]] Q` of a deflated matrix."""

    Q: Tensor
    P: Tensor
    r: Tensor
    lam: Tensor
    trace: Tensor  # of P: P itself knows it only up to rounding, and it is small next to the cut


def root_matrix(root: Root) -> Tensor:
    """The square root as a 3x3 matrix."""
    Q, P, r, lam, _ = root
    top = torch.cat((P, r[..., None]), dim=-1)
    bottom = torch.cat((torch.zeros_like(r), lam[..., None]), dim=-1)
    return mul(mul(Q, torch.cat((top, bottom[..., None, :]), dim=-2)), Q)


def solve_transposed(root: Root, G: Tensor) -> Tensor:
    """Solve `S^T Z + Z S^T = G` block by block; only tr(P) is small next to the cut."""
    Q, P, r, lam, tr = root
    G = mul(mul(Q, G), Q)
    shifted = inverse(P + lam[..., None, None] * eye_like(P))
    z12 = mul_vec(shifted.mT, G[..., :2, 2])
    Z11 = _sylvester2(P.mT, tr, G[..., :2, :2] - z12[..., :, None] * r[..., None, :])
    z22 = (G[..., 2, 2] - (r * z12).sum(-1)) / (2 * lam)
    z21 = mul_vec(shifted, G[..., 2, :2] - mul_vec(Z11.mT, r) - z22[..., None] * r)
    top = torch.cat((Z11, z12[..., None]), dim=-1)
    bottom = torch.cat((z21, z22[..., None]), dim=-1)
    return mul(mul(Q, torch.cat((top, bottom[..., None, :]), dim=-2)), Q)


@torch.no_grad()
def first_root(a: Tensor) -> tuple[Root, Invariants, Tensor]:
    """Principal root of A in deflated form, backward stable up to the cut; identity off the chart.

    Also its invariants, and the angle between the eigenvalues of A and the negative real axis, 0
    when one lies on it. All in float64: chart membership is then that of the given matrix, not of
    one within float32 rounding of it.
    """
    A = widen(a.detach())
    d = _deflate(A)
    angle = _angle(A, d)
    valid = angle > 0
    m, N, q = _gl2.split(d.B)
    det = torch.where(valid, _gl2.determinant(d.B), 1).sqrt()
    # (trace of the root)^2 = 2 (m + sqrt det); for m < 0 that is -2 q / (sqrt det - m).
    square = torch.where(m < 0, -2 * q / (det - m.clamp_max(0)), 2 * (m + det))
    tr = torch.where(valid, square, 4).sqrt()
    lam = torch.where(valid, d.lam, 1).sqrt()
    eye = eye_like(d.B)
    # sqrt(B) = (B + sqrt(det) I) / trace, with the diagonal in a form that does not cancel.
    P = N / tr[..., None, None] + (tr / 2)[..., None, None] * eye
    P = torch.where(valid[..., None, None], P, eye)
    r = mul_vec(inverse(P + lam[..., None, None] * eye), torch.where(valid[..., None], d.r, 0))
    root = Root(d.Q, P, r, lam, tr)
    # The last word: a root that does not square to A is no root (the pair on the axis, say).
    S = root_matrix(root)
    miss = (mul(S, S) - A).abs().amax((-2, -1)) / A.abs().amax((-2, -1))
    angle = torch.where(miss < _RESIDUAL, angle, 0)
    Q, P, r, lam, tr, det = (x.to(a.dtype) for x in (d.Q, P, r, lam, tr, det))
    return Root(Q, P, r, lam, tr), (lam, tr, det), angle.to(a.dtype)


def _angle(A: Tensor, d: _Deflated) -> Tensor:
    """Angle to the cut as far as the deflated form can tell; 0 within rounding of it."""
    eps = torch.finfo(A.dtype).eps
    # Numerically singular: within the rounding of some row of A the determinant vanishes.
    adj, det = accurate_adjugate(A)
    terms = (A * adj.mT).abs().sum(-1).amax(-1)
    regular = (det > 16 * eps * terms) & (d.lam > 0)
    # q of B within the rounding of the deflation: complex or real cannot be told.
    m, N, q = _gl2.split(d.B)
    noise = eps * A.abs().amax((-2, -1)) * N.abs().sum((-2, -1))
    told = (m > 0) | (-q > noise)
    return torch.where(regular & told, _gl2.margin(d.B), 0)


def _deflate(a: Tensor) -> _Deflated:
    """Split off the best isolated real eigenvalue of a 3x3 matrix by one Householder reflection.

    The eigenvalue is the root of the cubic that lies alone on its side of the mean, hence simple
    and well conditioned; its left eigenvector is a row of the adjugate, polished by two Rayleigh
    quotient steps that are kept only where they lower the residual.
    """
    mean = trace(a) / 3
    eye = eye_like(a)
    D = a - mean[..., None, None] * eye
    # Scale by a power-free max so that cubes neither overflow nor vanish.
    size = D.abs().amax((-2, -1))
    D = D / torch.where(size > 0, size, 1)[..., None, None]
    u, residual, shift = _rayleigh(D, _left_vector(D, _isolated_root(D)))
    for _ in range(2):
        u_new, residual_new, shift_new = _rayleigh(D, _left_vector(D, shift))
        better = residual_new < residual
        u = torch.where(better[..., None], u_new, u)
        shift = torch.where(better, shift_new, shift)
        residual = torch.minimum(residual, residual_new)
    # Householder H with H u = -+ e3, so that the last row of H A H is (0, 0, lam).
    sign = torch.where(u[..., 2] >= 0, 1.0, -1.0).to(u.dtype)
    w = torch.stack((u[..., 0], u[..., 1], u[..., 2] + sign), dim=-1)
    Q = eye - w[..., :, None] * w[..., None, :] / (1 + u[..., 2].abs())[..., None, None]
    T = mul(mul(Q, a), Q)
    return _Deflated(Q, T[..., :2, :2], T[..., :2, 2], T[..., 2, 2])


def _isolated_root(D: Tensor) -> Tensor:
    """Root of det(D - x I) with the sign of det D, for traceless D: alone on its side of zero."""
    adj, J3 = adjugate(D)
    J2 = -trace(adj)
    cube = J3.abs().pow(1 / 3)
    # Upper bounds of the root of x^3 - J2 x - |J3|; Newton descends from them monotonically.
    start_real = J2.clamp_min(0).sqrt() + cube
    start_complex = torch.minimum(cube, J3.abs() / torch.where(J2 < 0, -J2, 1))
    x = torch.where(J2 >= 0, start_real, start_complex)
    for _ in range(7):
        slope = 3 * x * x - J2
        x = x - torch.where(slope > 0, x * (x * x - J2) - J3.abs(), 0) / torch.where(
            slope > 0, slope, 1
        )
    return torch.where(J3 < 0, -x, x)


def _left_vector(D: Tensor, x: Tensor) -> Tensor:
    """Unit left null vector of D - x I: the largest of the cross products of its columns.

    Where all of them vanish the matrix has rank one (a pure shear, say) or zero, and any vector
    normal to its largest column will do.
    """
    columns = (D - x[..., None, None] * eye_like(D)).mT
    products = cross(columns, columns.roll(-1, -2))
    u, norm = _largest(products)
    column, size = _largest(columns)
    axes = cross(column[..., None, :], eye_like(D))
    normal, _ = _largest(axes)
    u = torch.where(norm > 0, u, torch.where(size > 0, normal, eye_like(D)[2]))
    return u / u.square().sum(-1, keepdim=True).sqrt()


def _largest(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The longest row of `[..., k, 3]`, scaled against underflow, and its size `[..., 1]`."""
    norms = rows.abs().amax(-1)
    best = norms.argmax(-1)[..., None]
    size = norms.gather(-1, best)
    row = rows.gather(-2, best[..., None].expand(*best.shape, 3))[..., 0, :]
    return row / torch.where(size > 0, size, 1), size


def _rayleigh(D: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row = (u[..., :, None] * D).sum(-2)
    shift = (row * u).sum(-1)
    return u, (row - shift[..., None] * u).square().sum(-1), shift


def _sylvester2(P: Tensor, tr: Tensor, G: Tensor) -> Tensor:
    """Solve `P Z + Z P = G` for 2x2 P of trace tr: (G + det(P) P^-1 G P^-1) / (2 tr)."""
    adj, det = adjugate(P)
    return (G + mul(mul(adj, G), adj) / det[..., None, None]) / (2 * tr)[..., None, None]
