"""GL(3): logarithm of 3x3 matrices, with the translation they carry.

It takes square roots until the matrix is near the identity (inverse scaling and
squaring). What is particular here:

* the first root goes through one orthogonal deflation, so its error is that of a backward stable
  algorithm however close a pair of eigenvalues comes to the negative axis;
* later roots have the closed form `(i1 A + i3 I)(A + i2 I)^-1`, whose invariants follow from those
  of the root before by three scalar square roots;
* each root's derivative is a Sylvester equation with a closed form (Cayley-Hamilton), so gradients
  never pass through eigenvectors and are finite at repeated eigenvalues.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _gl2
from ._quadrature import gauss_legendre
from ._small import adjugate, cross, eye_like, inverse, mul, mul_vec, trace, widen

# Square roots and Gauss-Legendre nodes: full precision for |log A| up to 60, in float32 up to 40.
ROOTS = {torch.float32: 6, torch.float64: 8}
NODES = {torch.float32: 4, torch.float64: 6}


class Log(NamedTuple):
    """Matrix logarithm `[..., 3, 3]`, `V^-1 t` `[..., 3]`, and where they are valid `[...]`."""

    X: Tensor
    u: Tensor
    valid: Tensor


def log(a: Tensor, e: Tensor, t: Tensor) -> Log:
    """Principal logarithm of `a = I + e` and `V(log a)^-1 t`; finite, arbitrary off the chart."""
    roots = ROOTS[a.dtype]
    root, invariants, valid = _first_root(a)
    S = root.matrix()
    e = torch.where(valid[..., None, None], e, 0)
    for level in range(roots):
        if level == 0:
            e = _FirstHalf.apply(e, *root)
        else:
            S, invariants = _next_root(S, invariants)
            e = _Half.apply(e, S)
        t = 2 * mul_vec(inverse(e + 2 * eye_like(e)), t)
    X = torch.zeros_like(e)
    u = torch.zeros_like(t)
    for node, weight in gauss_legendre(NODES[a.dtype]):
        R = inverse(eye_like(e) + node * e)
        X = X + weight * mul(e, R)
        u = u + weight * mul_vec(R, t)
    return Log(X * 2.0**roots, u, valid)


def margin(a: Tensor) -> Tensor:
    """Angle between the eigenvalues and the negative real axis; <= 0 when one lies on it."""
    return _margin(_deflate(widen(a.detach()))).to(a.dtype)


# ---- the root and its derivative -------------------------------------------------------------


class _Half(torch.autograd.Function):
    """`e' = S - I` for the root S of `I + e`, as `e (S + I)^-1`: exact also where e is tiny.

    S comes in as a constant; the derivative solves `S Z + Z S = dE` instead.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(e: Tensor, S: Tensor) -> Tensor:
        return mul(e, inverse(S + eye_like(S)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (half,) = ctx.saved_tensors
        return sylvester(half.mT + eye_like(half), grads[0]), None


class _FirstHalf(torch.autograd.Function):
    """The same for the first root, with a Sylvester solver that keeps its digits at the cut."""

    generate_vmap_rule = True

    @staticmethod
    def forward(e: Tensor, *root: Tensor) -> Tensor:
        S = _Root(*root).matrix()
        return mul(e, inverse(S + eye_like(S)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output, *inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        half, *root = ctx.saved_tensors
        with torch.no_grad():
            Z = _Root(*root).sylvester_transposed(grads[0])
        if torch.is_grad_enabled():
            # The value above is the accurate one; its derivative comes from the closed form, as
            # that of a correction which vanishes.
            S = half.mT + eye_like(half)
            correction = sylvester(S, grads[0] - mul(S, Z) - mul(Z, S))
            Z = Z + (correction - correction.detach())
        return Z, *(None for _ in root)


def sylvester(S: Tensor, G: Tensor) -> Tensor:
    """Solve `S Z + Z S = G` for 3x3 S with eigenvalues in the right half plane.

    Cayley-Hamilton turns it into `Z (2 i1 S^2 + 2 i3 I) = S^2 G - S G S + G S^2
    - i1 (S G - G S) + i2 G` with i1, i2, i3 the invariants of S.
    """
    i1, i2, i3 = (i[..., None, None] for i in _invariants(S))
    A = mul(S, S)
    SG, GS = mul(S, G), mul(G, S)
    right = mul(S, SG) - mul(SG, S) + mul(GS, S) - i1 * (SG - GS) + i2 * G
    return mul(right, inverse(2 * (i1 * A + i3 * eye_like(S))))


def _sylvester2(P: Tensor, tr: Tensor, G: Tensor) -> Tensor:
    """Solve `P Z + Z P = G` for 2x2 P of trace tr: (G + det(P) P^-1 G P^-1) / (2 tr)."""
    adj, det = adjugate(P)
    return (G + mul(mul(adj, G), adj) / det[..., None, None]) / (2 * tr)[..., None, None]


def _invariants(S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    adj, det = adjugate(S)
    return trace(S), trace(adj), det


# ---- square roots (values only) --------------------------------------------------------------


class _Deflated(NamedTuple):
    """`A = Q [[B, r], [0, lam]] Q` with Q a reflection."""

    Q: Tensor  # [..., 3, 3]
    B: Tensor  # [..., 2, 2]
    r: Tensor  # [..., 2]
    lam: Tensor  # [...]


class _Root(NamedTuple):
    """Square root `Q [[P, r], [0, root_lam]] Q` of a deflated matrix."""

    Q: Tensor
    P: Tensor
    r: Tensor
    root_lam: Tensor
    trace: Tensor  # of P: P itself knows it only up to rounding, and it is small next to the cut

    def matrix(self) -> Tensor:
        zeros = torch.zeros_like(self.r)
        top = torch.cat((self.P, self.r[..., None]), dim=-1)
        bottom = torch.cat((zeros, self.root_lam[..., None]), dim=-1)
        T = torch.cat((top, bottom[..., None, :]), dim=-2)
        return mul(mul(self.Q, T), self.Q)

    def sylvester_transposed(self, G: Tensor) -> Tensor:
        """Solve `S^T Z + Z S^T = G` block by block; only tr(P) is small next to the cut."""
        G = mul(mul(self.Q, G), self.Q)
        shifted = inverse(self.P + self.root_lam[..., None, None] * eye_like(self.P))
        z12 = mul_vec(shifted.mT, G[..., :2, 2])
        G11 = G[..., :2, :2] - z12[..., :, None] * self.r[..., None, :]
        Z11 = _sylvester2(self.P.mT, self.trace, G11)
        z22 = (G[..., 2, 2] - (self.r * z12).sum(-1)) / (2 * self.root_lam)
        left = G[..., 2, :2] - mul_vec(Z11.mT, self.r) - z22[..., None] * self.r
        z21 = mul_vec(shifted, left)
        top = torch.cat((Z11, z12[..., None]), dim=-1)
        bottom = torch.cat((z21, z22[..., None]), dim=-1)
        Z = torch.cat((top, bottom[..., None, :]), dim=-2)
        return mul(mul(self.Q, Z), self.Q)


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
    """Unit left null vector of D - x I: the largest of the cross products of its columns."""
    c0, c1, c2 = (D - x[..., None, None] * eye_like(D)).unbind(-1)
    rows = torch.stack((cross(c1, c2), cross(c2, c0), cross(c0, c1)), dim=-2)
    norms = rows.square().sum(-1)
    best = norms.argmax(-1)
    u = rows.gather(-2, best[..., None, None].expand(*best.shape, 1, 3))[..., 0, :]
    norm = norms.amax(-1)[..., None]
    e3 = eye_like(D)[2]
    return torch.where(norm > 0, u / torch.where(norm > 0, norm, 1).sqrt(), e3)


def _rayleigh(D: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row = (u[..., :, None] * D).sum(-2)
    shift = (row * u).sum(-1)
    return u, (row - shift[..., None] * u).square().sum(-1), shift


def _margin(d: _Deflated) -> Tensor:
    zero = torch.zeros_like(d.lam)
    return torch.where(d.lam > 0, _gl2.margin(d.B), zero)


_Invariants = tuple[Tensor, Tensor, Tensor]  # sqrt(lam), trace and determinant of sqrt(B)


@torch.no_grad()
def _first_root(a: Tensor) -> tuple[_Root, _Invariants, Tensor]:
    """Principal root of A in deflated form, backward stable up to the cut; identity off the chart.

    Also its invariants, and where A is on the chart. The deflation runs in float64: membership is
    then that of the given matrix, not of one within float32 rounding of it.
    """
    d = _deflate(widen(a.detach()))
    valid = _margin(d) > 0
    m, N, q = _gl2.split(d.B)
    root_det = _gl2.determinant(d.B).clamp_min(0).sqrt()
    # (trace of the root)^2 = 2 (m + sqrt det); for m < 0 that is -2 q / (sqrt det - m).
    m_neg = m < 0
    square = torch.where(m_neg, -2 * q / torch.where(m_neg, root_det - m, 1), 2 * (m + root_det))
    eye = torch.eye(2, dtype=m.dtype, device=m.device)
    root_trace = torch.where(valid, square, 4).sqrt()
    root_det = torch.where(valid, root_det, 1)
    root_lam = torch.where(valid, d.lam, 1).sqrt()
    # sqrt(B) = (B + sqrt(det) I) / trace, with the diagonal in a form that does not cancel.
    P = N / root_trace[..., None, None] + (root_trace / 2)[..., None, None] * eye
    P = torch.where(valid[..., None, None], P, eye)
    r = torch.where(valid[..., None], d.r, 0)
    r = mul_vec(inverse(P + root_lam[..., None, None] * eye), r)
    Q = torch.where(valid[..., None, None], d.Q, eye_like(a).to(m.dtype))
    Q, P, r, root_lam, root_trace, root_det = (
        x.to(a.dtype) for x in (Q, P, r, root_lam, root_trace, root_det)
    )
    return _Root(Q, P, r, root_lam, root_trace), (root_lam, root_trace, root_det), valid


@torch.no_grad()
def _next_root(S: Tensor, invariants: _Invariants) -> tuple[Tensor, _Invariants]:
    """Root of S, whose eigenvalues lie in the right half plane, from its invariants alone."""
    lam, tr, det = invariants
    lam, det = lam.sqrt(), det.sqrt()
    tr = (tr + 2 * det).sqrt()
    i1, i2, i3 = lam + tr, lam * tr + det, lam * det
    eye = eye_like(S)
    numerator = i1[..., None, None] * S + i3[..., None, None] * eye
    return mul(numerator, inverse(S + i2[..., None, None] * eye)), (lam, tr, det)
