"""GL(2) in closed form: matrices `m I + N` with N traceless, so that `N^2 = q I` is a scalar.

Functions of such a matrix stay in the commutative ring spanned by I and N, and every step is
arithmetic on two coefficients. Nothing asks whether eigenvalues are real, equal or complex.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import accurate_adjugate, difference_of_products, mul_vec, stack
from .series import exp_pair, half_coth_coefficients, log_coefficient

# Halvings before the series of V^-1: |log A| <= 64 reaches the series below |x| = 1/2.
_HALVINGS = 7
_NEAR = 0.25  # below it `a - I` is exact where `a` is rounded


def split(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Half trace m `[...]`, traceless part N `[..., 2, 2]` and q with N^2 = q I."""
    (p, b), (c, s) = (row.unbind(-1) for row in a.unbind(-2))
    h = (p - s) / 2
    N = stack((h, b, c, -h)).unflatten(-1, (2, 2))
    # q decides the chart and feeds a square root: no cancellation may reach it.
    return (p + s) / 2, N, difference_of_products(h, h, -b, c)


def determinant(a: Tensor) -> Tensor:
    """Determinant `[...]`, exact to the last bit also for nearly singular matrices."""
    return accurate_adjugate(a)[1]


def exp(X: Tensor) -> Tensor:
    """Matrix exponential of `[..., 2, 2]`."""
    m, N, q = split(X)
    c, s = exp_pair(m, q)
    return _ring(c, s, N)


def log(a: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Principal logarithm of `a = I + e` and its validity; finite and arbitrary off the chart."""
    valid = margin(a) > 0
    e = torch.where(valid[..., None, None], e, 0)
    a = torch.where(valid[..., None, None], a, torch.eye(2, dtype=a.dtype, device=a.device))
    m, _, _ = split(a)
    # The traceless part from whichever of a and e = a - I has not lost digits to the other.
    near = e.abs().amax((-2, -1), keepdim=True) < _NEAR
    _, N, q = split(torch.where(near, e, a))
    half_log, det = half_log_det(a, e)
    return _ring(half_log, log_coefficient(m, q, det), N), valid


def half_log_det(a: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    det = determinant(a)
    # Near the identity det - 1 comes from e, which has not lost its digits to the 1.
    excess = e[..., 0, 0] + e[..., 1, 1] + e[..., 0, 0] * e[..., 1, 1] - e[..., 0, 1] * e[..., 1, 0]
    near = e.abs().amax((-2, -1)) < _NEAR
    far_log = torch.where(near, 1, det).log()
    return torch.where(near, torch.where(near, excess, 0).log1p(), far_log) / 2, det


def margin(a: Tensor) -> Tensor:
    """Angle between the eigenvalues and the negative real axis; <= 0 when one lies on it."""
    m, _, q = split(a)
    det = determinant(a)
    s = torch.where(q < 0, -q, 0).sqrt()
    on_axis = torch.where((m > 0) & (det > 0), torch.pi, 0.0).to(a.dtype)
    # atan2(s, -m), not pi - atan2(s, m): the difference rounds to zero next to the axis.
    return torch.where(q < 0, torch.atan2(s, -m), on_axis)


def left_jacobian(X: Tensor, v: Tensor) -> Tensor:
    """V(X) v with V(X) = (e^X - I) / X, `[..., 2]`: V(X) = V(X/2) (e^(X/2) + I)/2, repeated."""
    m, N, q = split(X)
    small, powers = _halved(m, q)
    m_k, q_k = small
    scale = 0.5**_HALVINGS
    # Taylor series sum_k x^k / (k+1)! of the small argument in the ring, by Horner.
    c0, c1 = torch.ones_like(m_k), torch.zeros_like(m_k)
    for k in range(15, 1, -1):
        c0, c1 = 1 + (m_k * c0 + q_k * c1) / k, (m_k * c1 + c0) / k
    v = c0[..., None] * v + (c1 * scale)[..., None] * mul_vec(N, v)
    for a, b, _ in powers:
        v = ((1 + a)[..., None] * v + b[..., None] * mul_vec(N, v)) / 2
    return v


def inverse_left_jacobian(X: Tensor, v: Tensor) -> Tensor:
    """V(X)^-1 v: the same ladder, each step inverted."""
    m, N, q = split(X)
    (m_k, q_k), powers = _halved(m, q)
    for a, b, det_power in powers:
        # det(e^(X/2^j) + I) as a sum of positive terms while |Im| of the eigenvalues is <= pi.
        det = 1 + 2 * a + det_power
        v = 2 * ((1 + a)[..., None] * v - b[..., None] * mul_vec(N, v)) / det[..., None]
    # V^-1 = (x/2) coth(x/2) - x/2, the first term a series in x^2 = r + 2 m N.
    scale = 0.5**_HALVINGS
    r, n = m_k * m_k + q_k, 2 * m_k
    c0, c1 = torch.zeros_like(r), torch.zeros_like(r)
    for c in reversed(half_coth_coefficients()):
        c0, c1 = c + r * c0 + n * q_k * c1, r * c1 + n * c0
    c0, c1 = c0 - m_k / 2, c1 - 0.5
    return c0[..., None] * v + (c1 * scale)[..., None] * mul_vec(N, v)


def _halved(
    m: Tensor, q: Tensor
) -> tuple[tuple[Tensor, Tensor], list[tuple[Tensor, Tensor, Tensor]]]:
    """m and q of X/2^k; coefficients of I and N, and determinant, of e^(X/2^j) for j = 1 to k.

    Downwards by square roots, which halve relative errors, not upwards by squares, which double
    them.
    """
    a, b = exp_pair(m / 2, q / 4)
    b, det = b / 2, m.exp()
    powers = [(a, b, det)]
    for _ in range(_HALVINGS - 1):
        det = det.sqrt()
        twice_root = (2 * (a + det)).sqrt()
        a, b = twice_root / 2, b / twice_root
        powers.append((a, b, det))
    scale = 0.5**_HALVINGS
    return (m * scale, q * scale * scale), powers


def _ring(c: Tensor, s: Tensor, N: Tensor) -> Tensor:
    eye = torch.eye(2, dtype=N.dtype, device=N.device)
    return c[..., None, None] * eye + s[..., None, None] * N
