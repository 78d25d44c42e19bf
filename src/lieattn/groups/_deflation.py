"""First square root of a 3x3 matrix: orthogonal deflation, then closed forms. Values only.

Backward stable however close a pair of eigenvalues comes to the negative axis. It also decides
whether the matrix is on the principal chart. `_gl3` supplies the derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.small import (
    adjugate,
    cross,
    dot,
    eye_like,
    inverse,
    largest_entry,
    mul,
    mul_vec,
    stack,
    trace,
    widen,
)
from . import _gl2

_POLISH = 2  # Rayleigh quotient steps: each squares the error of the eigenvector
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
    trace: Tensor  # of P, more accurate than P: it is small next to the cut


def root_matrix(root: Root) -> Tensor:
    """The square root as a 3x3 matrix."""
    Q, P, r, lam, _ = root
    o = torch.zeros_like(lam)
    return mul(mul(Q, _assemble(P, r, stack((o, o)), lam)), Q)


def solve_transposed(root: Root, G: Tensor) -> Tensor:
    """Solve `S^T Z + Z S^T = G` block by block; only tr(P) is small next to the cut."""
    Q, P, r, lam, tr = root
    G = mul(mul(Q, G), Q)
    shifted = inverse(P + lam[..., None, None] * eye_like(P))
    z12 = mul_vec(shifted.mT, G[..., :2, 2])
    Z11 = _sylvester2(P.mT, tr, G[..., :2, :2] - z12[..., :, None] * r[..., None, :])
    z22 = (G[..., 2, 2] - dot(r, z12)) / (2 * lam)
    z21 = mul_vec(shifted, G[..., 2, :2] - mul_vec(Z11.mT, r) - z22[..., None] * r)
    return mul(mul(Q, _assemble(Z11, z12, z21, z22)), Q)


def _assemble(block: Tensor, right: Tensor, below: Tensor, corner: Tensor) -> Tensor:
    """[[block, right], [below, corner]] from a 2x2 matrix, two vectors and a scalar."""
    (p, q), (r, s) = (row.unbind(-1) for row in block.unbind(-2))
    (x, y), (z, w) = right.unbind(-1), below.unbind(-1)
    return stack((p, q, x, r, s, y, z, w, corner)).unflatten(-1, (3, 3))


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
    r = mul_vec(inverse(P + lam[..., None, None] * eye), d.r)
    # A root that does not square to A is invalid, as for a pair of eigenvalues on the axis.
    S = root_matrix(Root(d.Q, P, r, lam, tr))
    miss = largest_entry(mul(S, S) - A) / largest_entry(A)
    angle = torch.where(miss < _RESIDUAL, angle, 0)
    valid = angle > 0
    Q = torch.where(valid[..., None, None], d.Q, eye_like(A)).to(a.dtype)
    P = torch.where(valid[..., None, None], P, eye).to(a.dtype)
    r = torch.where(valid[..., None], r, 0).to(a.dtype)
    lam, tr, det = (torch.where(valid, x, o).to(a.dtype) for x, o in ((lam, 1), (tr, 2), (det, 1)))
    return Root(Q, P, r, lam, tr), (lam, tr, det), angle.to(a.dtype)


def _angle(A: Tensor, d: _Deflated) -> Tensor:
    """Angle to the cut from the deflated form; 0 within rounding of it."""
    eps = torch.finfo(A.dtype).eps
    # Numerically singular: within the rounding of some row of A the determinant vanishes.
    adj, det = adjugate(A)
    terms = largest_entry(A * adj.mT)
    rank_two = largest_entry(adj) > 64 * eps * largest_entry(A).square()
    regular = (det > 64 * eps * terms) & rank_two & (d.lam > 0)
    # With q of B within the rounding of the deflation, eigenvalues may be real or complex.
    m, N, q = _gl2.split(d.B)
    noise = eps * largest_entry(A) * largest_entry(N)
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
    size = largest_entry(D)
    D = D / torch.where(size > 0, size, 1)[..., None, None]
    u, residual, shift = _rayleigh(D, _left_vector(D, _isolated_root(D)))
    for _ in range(_POLISH):
        # Where the shift is exact the new vector is 0/0, and its residual is not less than any.
        u_new, residual_new, shift_new = _rayleigh(D, _simple_left_vector(D, shift))
        better = residual_new < residual
        u = torch.where(better[..., None], u_new, u)
        shift = torch.where(better, shift_new, shift)
        residual = torch.where(better, residual_new, residual)
    # Householder H with H u = -+ e3, so that the last row of H A H is (0, 0, lam).
    u0, u1, u2 = u.unbind(-1)
    w = stack((u0, u1, u2 + torch.where(u2 >= 0, 1.0, -1.0).to(u.dtype)))
    Q = eye - w[..., :, None] * w[..., None, :] / (1 + u2.abs())[..., None, None]
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


def _simple_left_vector(D: Tensor, x: Tensor) -> Tensor:
    """Unit left null vector of D - x I of rank two: the largest cross product of its columns."""
    c0, c1, c2 = (D - x[..., None, None] * eye_like(D)).unbind(-1)
    u, _ = _largest(cross(c0, c1), cross(c1, c2), cross(c2, c0))
    return u / dot(u, u).sqrt()[..., None]


def _left_vector(D: Tensor, x: Tensor) -> Tensor:
    """Unit left null vector of D - x I of any rank.

    Where all cross products vanish the matrix has rank one (a pure shear, say) or zero, and any
    vector normal to its largest column will do.
    """
    u = _simple_left_vector(D, x)
    column, size = _largest(*(D - x[..., None, None] * eye_like(D)).unbind(-1))
    o, (p, q, r) = torch.zeros_like(x), column.unbind(-1)
    normal, _ = _largest(stack((o, r, -q)), stack((-r, o, p)), stack((q, -p, o)))
    normal = torch.where((size > 0)[..., None], normal, eye_like(D)[2])
    u = torch.where(u.isnan(), normal, u)
    return u / dot(u, u).sqrt()[..., None]


def _largest(*vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The longest of three vectors `[..., 3]`, scaled against underflow, and its size `[...]`."""
    first, second, third = (largest_entry(v[..., None]) for v in vectors)
    best = torch.where((first >= second)[..., None], vectors[0], vectors[1])
    size = torch.maximum(first, second)
    best = torch.where((size >= third)[..., None], best, vectors[2])
    size = torch.maximum(size, third)
    return best / torch.where(size > 0, size, 1)[..., None], size


def _rayleigh(D: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row = mul_vec(D.mT, u)
    shift = dot(row, u)
    rest = row - shift[..., None] * u
    return u, dot(rest, rest), shift


def _sylvester2(P: Tensor, tr: Tensor, G: Tensor) -> Tensor:
    """Solve `P Z + Z P = G` for 2x2 P of trace tr: (G + det(P) P^-1 G P^-1) / (2 tr)."""
    adj, det = adjugate(P)
    return (G + mul(mul(adj, G), adj) / det[..., None, None]) / (2 * tr)[..., None, None]
