"""Triton device functions of Aff(2): `log(g_i^-1 g_j)` for tiles of pairs, and its adjoint.

As `geometry` for rigid motions, but in float64, as in the reference: the product of two
ill-conditioned matrices has lost what each of them holds.
"""

import triton
import triton.language as tl

from ...groups import series as _series
from .geometry import _SQRT2, _horner, _row

_HALF_COTH = tl.constexpr(_series._HALF_COTH)
_HALF_COTH_SLOPE = tl.constexpr(tuple(2 * k * c for k, c in enumerate(_series._HALF_COTH))[1:])
_ATANH = tl.constexpr(tuple(1 / (2 * k + 1) for k in range(10)))
_ATANH_SLOPE = tl.constexpr(tuple(k / (2 * k + 1) for k in range(1, 10)))
# d/dQ of sinh(sqrt Q) / sqrt Q for |Q| < 1/4.
_SINHC_SLOPE = tl.constexpr((1 / 6, 1 / 60, 1 / 1680, 1 / 90720))
_ATANH_CUT = tl.constexpr(0.16)  # _ATANH_CUT^10 is below the last bit
_NEAR = tl.constexpr(0.25)  # as in groups/_gl2.py
_SERIES_RADIUS = tl.constexpr(2.0)  # nine terms of _HALF_COTH leave 1e-9 there
_SEPARATE = tl.constexpr(0.25)  # squared half distance of eigenvalues that count as apart
_PI = tl.constexpr(3.141592653589793)


@triton.jit
def _wide_row(ptr, row: tl.constexpr, at, size):
    return _row(ptr, row, at, size).to(tl.float64)


@triton.jit
def _query_inverse(q, i, Nq):
    """A_i^-1, `[queries, 1]`; the identity past the end and for poses that are not admitted."""
    ok = _row(q, 6, i, Nq)[:, None] > 0
    a, b = _wide_row(q, 0, i, Nq)[:, None], _wide_row(q, 1, i, Nq)[:, None]
    c, d = _wide_row(q, 2, i, Nq)[:, None], _wide_row(q, 3, i, Nq)[:, None]
    det = tl.where(ok, a * d - b * c, 1.0)
    return tl.where(ok, d / det, 1.0), -b / det, -c / det, tl.where(ok, a / det, 1.0)


@triton.jit
def _angle(s, m):
    """atan2(s, m) for s > 0."""
    size = tl.abs(m)
    low, high = tl.minimum(s, size), tl.maximum(s, size)
    # atan(r) = pi/4 - atan((1 - r)/(1 + r)) for r above tan(pi/8).
    steep = low > 0.41421356 * high
    y = tl.where(steep, high - low, low) / tl.where(steep, high + low, high)
    angle = y * _horner(_ATANH, 10, -y * y)
    angle = tl.where(steep, -angle + _PI / 4, angle)
    angle = tl.where(s > size, -angle + _PI / 2, angle)
    return tl.where(m < 0, -angle + _PI, angle)


@triton.jit
def _affine_relative(q, k, i, j, Nq, Nk, cos_margin, sin_margin):
    """a = A_i^-1 A_j, its half trace m, traceless part (p, b; c, -p), p^2 + b c, det; t; h, valid.

    h is half the logarithm of det. Off the chart all of them are those of the identity.
    """
    i00, i01 = _wide_row(q, 0, i, Nq)[:, None], _wide_row(q, 1, i, Nq)[:, None]
    i10, i11 = _wide_row(q, 2, i, Nq)[:, None], _wide_row(q, 3, i, Nq)[:, None]
    j00, j01 = _wide_row(k, 0, j, Nk)[None, :], _wide_row(k, 1, j, Nk)[None, :]
    j10, j11 = _wide_row(k, 2, j, Nk)[None, :], _wide_row(k, 3, j, Nk)[None, :]
    n00, n01, n10, n11 = _query_inverse(q, i, Nq)
    a00, a01 = n00 * j00 + n01 * j10, n00 * j01 + n01 * j11
    a10, a11 = n10 * j00 + n11 * j10, n10 * j01 + n11 * j11
    d00, d01, d10, d11 = j00 - i00, j01 - i01, j10 - i10, j11 - i11
    e00, e01 = n00 * d00 + n01 * d10, n00 * d01 + n01 * d11
    e10, e11 = n10 * d00 + n11 * d10, n10 * d01 + n11 * d11
    s0 = _wide_row(k, 4, j, Nk)[None, :] - _wide_row(q, 4, i, Nq)[:, None]
    s1 = _wide_row(k, 5, j, Nk)[None, :] - _wide_row(q, 5, i, Nq)[:, None]
    t0, t1 = n00 * s0 + n01 * s1, n10 * s0 + n11 * s1

    largest = tl.maximum(tl.maximum(tl.abs(e00), tl.abs(e01)), tl.maximum(tl.abs(e10), tl.abs(e11)))
    near = largest < _NEAR
    m, det = (a00 + a11) * 0.5, a00 * a11 - a01 * a10
    # The traceless part from whichever of a and e = a - I has not lost digits to the other.
    p = tl.where(near, e00 - e11, a00 - a11) * 0.5
    b, c = tl.where(near, e01, a01), tl.where(near, e10, a10)
    square = p * p + b * c
    # Angle to the cut above the margin, without an arctangent: sin(angle - margin) > 0.
    root = tl.sqrt(tl.where(square < 0, -square, 0.0))
    clear = root * cos_margin + m * sin_margin > 0
    valid = near | tl.where(square < 0, clear, (m > 0) & (det > 0))
    valid = valid & (_row(q, 6, i, Nq)[:, None] > 0) & (_row(k, 6, j, Nk)[None, :] > 0)
    # Only overflow leaves something that is not finite here.
    valid = valid & (tl.abs(square) + tl.abs(det) + tl.abs(t0) + tl.abs(t1) < float("inf"))

    a00, a11 = tl.where(valid, a00, 1.0), tl.where(valid, a11, 1.0)
    a01, a10 = tl.where(valid, a01, 0.0), tl.where(valid, a10, 0.0)
    p, b, c = tl.where(valid, p, 0.0), tl.where(valid, b, 0.0), tl.where(valid, c, 0.0)
    m, det = tl.where(valid, m, 1.0), tl.where(valid, det, 1.0)
    square = tl.where(valid, square, 0.0)
    t0, t1 = tl.where(valid, t0, 0.0), tl.where(valid, t1, 0.0)
    # log(1 + x) = 2 atanh(x / (2 + x)), from e where it has not lost its digits to the 1.
    x = tl.where(near & valid, e00 + e11 + (e00 * e11 - e01 * e10), 0.0)
    y = x / (2.0 + x)
    h = tl.where(near, y * _horner(_ATANH, 10, y * y), 0.5 * tl.log(det))
    return a00, a01, a10, a11, m, p, b, c, square, det, t0, t1, h, valid


@triton.jit
def _log_coefficient(m, q, det):
    """f with log(m I + N) = log(det)/2 I + f N, N^2 = q I; see groups/_series.py."""
    small = (tl.abs(q) < m * m * _ATANH_CUT) & (m > 0)
    safe = tl.where(small, m, 1.0)
    near = _horner(_ATANH, 10, tl.where(small, q, 0.0) / (safe * safe)) / safe
    s = tl.sqrt(tl.where(small, 1.0, tl.abs(q)))
    s = tl.where(s > 0, s, 1.0)
    x = s / tl.sqrt(tl.where(q > 0, det, 1.0))
    angle = tl.where(q > 0, tl.log(x + tl.sqrt(1.0 + x * x)), _angle(s, m))
    return tl.where(small, near, angle / s)


@triton.jit
def _log_coefficient_slopes(m, q, det, f):
    """df/dm, df/dq and df/d(det).

    Real eigenvalues far apart have m = sqrt(q + det), and f is a function of q and det alone:
    through m and q its slopes would cancel where det is small beside both.
    """
    small = (tl.abs(q) < m * m * _ATANH_CUT) & (m > 0)
    safe = tl.where(small, m, 1.0)
    near = _horner(_ATANH_SLOPE, 9, tl.where(small, q, 0.0) / (safe * safe))
    real = (q > 0) & (small == 0)
    inverse = 1.0 / tl.where(real, m, 1.0)
    far = (tl.where(real, inverse, m / det) - f) / tl.where(small, 1.0, 2.0 * q)
    by_q = tl.where(small, near / (safe * safe * safe), far)
    return tl.where(real, 0.0, -1.0 / det), by_q, tl.where(real, -0.5 * inverse / det, 0.0)


@triton.jit
def _bernoulli(x):
    """x / (e^x - 1)."""
    small = tl.abs(x) < _SERIES_RADIUS
    near, far = tl.where(small, x, 0.0), tl.where(small, 1.0, x)
    return tl.where(
        small, _horner(_HALF_COTH, 9, near * near) - near * 0.5, far / (tl.exp(far) - 1.0)
    )


@triton.jit
def _bernoulli_slope(x):
    small = tl.abs(x) < _SERIES_RADIUS
    near, far = tl.where(small, x, 0.0), tl.where(small, 1.0, x)
    series = near * _horner(_HALF_COTH_SLOPE, 8, near * near) - 0.5
    return tl.where(small, series, (1.0 - far / (1.0 - tl.exp(-far))) / (tl.exp(far) - 1.0))


@triton.jit
def _jacobian_case(h, Q):
    """0: a series around 0; 1: real eigenvalues h +- sqrt Q, taken one by one; 2: X (A - I)^-1."""
    root = tl.sqrt(tl.abs(Q))
    radius = tl.where(Q > 0, tl.abs(h) + root, tl.sqrt(h * h + tl.abs(Q)))
    return tl.where(radius < _SERIES_RADIUS, 0, tl.where(Q > _SEPARATE, 1, 2)), root


@triton.jit
def _inverse_jacobian(h, Q, m, q, f):
    """v0, v1 with V(X)^-1 = v0 I + v1 X_0, for X = log A = h I + X_0, X_0 = f N, X_0^2 = Q I.

    V^-1 = X / (e^X - I) is a quotient of known matrices, but cancels where an eigenvalue of A is
    close to 1: near the identity the series of (x/2) coth(x/2) - x/2 takes over, else the
    eigenvalues are real and far apart.
    """
    case, root = _jacobian_case(h, Q)
    hs, Qs = tl.where(case == 0, h, 0.0), tl.where(case == 0, Q, 0.0)
    r, n = hs * hs + Qs, 2.0 * hs
    c0, c1 = r * 0.0 + _HALF_COTH[8], r * 0.0
    for k in tl.static_range(1, 9):
        c0, c1 = r * c0 + n * Qs * c1 + _HALF_COTH[8 - k], r * c1 + n * c0
    c0, c1 = c0 - hs * 0.5, c1 - 0.5

    s = tl.where(case == 1, root, 1.0)
    one, two = _bernoulli(h + s), _bernoulli(h - s)

    e = m - 1.0
    D = tl.where(case == 2, e * e - q, 1.0)
    v0 = tl.where(case == 1, (one + two) * 0.5, (h * e - f * q) / D)
    v1 = tl.where(case == 1, (one - two) / (2.0 * s), (e - h / f) / D)
    return tl.where(case == 0, c0, v0), tl.where(case == 0, c1, v1)


@triton.jit
def _inverse_jacobian_slopes(h, Q, m, q, f, v0, v1):
    """dv0/dh, dv1/dh, dv1/dQ; dv0/dQ is half of dv1/dh, as for every analytic function."""
    case, root = _jacobian_case(h, Q)
    hs, Qs = tl.where(case == 0, h, 0.0), tl.where(case == 0, Q, 0.0)
    r, n = hs * hs + Qs, 2.0 * hs
    c0, c1 = r * 0.0 + _HALF_COTH[8], r * 0.0
    c0h, c1h, c1Q = r * 0.0, r * 0.0, r * 0.0
    for k in tl.static_range(1, 9):
        c1Q = c1 + r * c1Q + n * 0.5 * c1h
        c0h, c1h = (
            n * c0 + r * c0h + 2.0 * Qs * c1 + n * Qs * c1h,
            n * c1 + r * c1h + 2.0 * c0 + n * c0h,
        )
        c0, c1 = r * c0 + n * Qs * c1 + _HALF_COTH[8 - k], r * c1 + n * c0

    s = tl.where(case == 1, root, 1.0)
    one, two = _bernoulli_slope(h + s), _bernoulli_slope(h - s)

    # phi = x/(e^x - 1) has phi' = (1 - phi e^x)/(e^x - 1); coefficients of I and N.
    e = m - 1.0
    D = tl.where(case == 2, e * e - q, 1.0)
    r0, r1 = 1.0 - v0 * m - v1 * f * q, -(v1 * f * m + v0)
    v0h = tl.where(case == 1, (one + two) * 0.5, (r0 * e - r1 * q) / D)
    v1h = tl.where(case == 1, (one - two) / (2.0 * s), (r1 * e - r0) / (D * f))
    apart = tl.abs(Q) > _SEPARATE
    quotient = (v0h - v1) / tl.where(apart, 2.0 * Q, 1.0)
    # Close eigenvalues away from 0: the derivative of v0 sigma + v1 (cosh - 1) = 1.
    near = (case == 2) & (tl.abs(Q) <= _SEPARATE)
    sigma_slope = tl.exp(tl.where(near, h, 0.0)) * _horner(_SINHC_SLOPE, 4, tl.where(near, Q, 0.0))
    implicit = (v1h + v1) * 0.5 / f + v0 * sigma_slope
    v1Q = tl.where(near, -implicit / tl.where(near, e, 1.0), quotient)
    return (
        tl.where(case == 0, c0h - 0.5, v0h),
        tl.where(case == 0, c1h, v1h),
        tl.where(case == 0, c1Q, v1Q),
    )


@triton.jit
def affine_coords(q, k, i, j, Nq, Nk, cos_margin, sin_margin):
    """V^-1 t, then rotation, scale and shear of log A."""
    _a00, _a01, _a10, _a11, m, p, b, c, square, det, t0, t1, h, valid = _affine_relative(
        q, k, i, j, Nq, Nk, cos_margin, sin_margin
    )
    f = _log_coefficient(m, square, det)
    v0, v1 = _inverse_jacobian(h, f * f * square, m, square, f)
    v1 = v1 * f
    u0, u1 = v0 * t0 + v1 * (p * t0 + b * t1), v0 * t1 + v1 * (c * t0 - p * t1)
    g = f * (1 / _SQRT2)
    return u0, u1, g * (c - b), h * _SQRT2, f * p * _SQRT2, g * (b + c), valid


@triton.jit
def affine_adjoint(q, k, i, j, Nq, Nk, cos_margin, sin_margin, g0, g1, g2, g3, g4, g5):
    """For the query the gradient along the group (A then t); for the key that of its entries."""
    a00, a01, a10, a11, m, p, b, c, square, det, t0, t1, h, _valid = _affine_relative(
        q, k, i, j, Nq, Nk, cos_margin, sin_margin
    )
    g0, g1, g2 = g0.to(tl.float64), g1.to(tl.float64), g2.to(tl.float64)
    g3, g4, g5 = g3.to(tl.float64), g4.to(tl.float64), g5.to(tl.float64)
    f = _log_coefficient(m, square, det)
    Q = f * f * square
    v0, v1 = _inverse_jacobian(h, Q, m, square, f)
    v0h, v1h, v1Q = _inverse_jacobian_slopes(h, Q, m, square, f, v0, v1)
    y0, y1 = p * t0 + b * t1, c * t0 - p * t1
    gt, gy = g0 * t0 + g1 * t1, g0 * y0 + g1 * y1
    vf = v1 * f
    gt0, gt1 = v0 * g0 + vf * (p * g0 + c * g1), v0 * g1 + vf * (b * g0 - p * g1)
    gh = g3 * _SQRT2 + gt * v0h + f * gy * v1h
    gQ = 0.5 * gt * v1h + f * gy * v1Q
    rotation, shear = g2 * (1 / _SQRT2), g5 * (1 / _SQRT2)
    gf = v1 * gy + 2.0 * f * square * gQ
    gf += rotation * (c - b) + g4 * p * _SQRT2 + shear * (b + c)
    by_m, by_q, by_det = _log_coefficient_slopes(m, square, det, f)
    gq = f * f * gQ + gf * by_q
    gp = vf * (t0 * g0 - t1 * g1) + f * g4 * _SQRT2 + 2.0 * p * gq
    gb = vf * t1 * g0 + f * (shear - rotation) + c * gq
    gc = vf * t0 * g1 + f * (shear + rotation) + b * gq
    gm = 0.5 * gf * by_m
    # The gradient of det is the adjugate, entry by entry: no cancellation.
    gd = 0.5 * gh / det + gf * by_det
    x00, x11 = gm + 0.5 * gp + gd * a11, gm - 0.5 * gp + gd * a00
    x01, x10 = gb - gd * a10, gc - gd * a01
    n00, n01, n10, n11 = _query_inverse(q, i, Nq)
    return (
        -(x00 * a00 + x01 * a01 + gt0 * t0), -(x00 * a10 + x01 * a11 + gt0 * t1),
        -(x10 * a00 + x11 * a01 + gt1 * t0), -(x10 * a10 + x11 * a11 + gt1 * t1),
        -gt0, -gt1,
        n00 * x00 + n10 * x10, n00 * x01 + n10 * x11,
        n01 * x00 + n11 * x10, n01 * x01 + n11 * x11,
        n00 * gt0 + n10 * gt1, n01 * gt0 + n11 * gt1,
    )  # fmt: skip
