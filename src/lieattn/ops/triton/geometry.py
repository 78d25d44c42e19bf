"""Triton device functions of rigid motions: `log(g_i^-1 g_j)` for tiles of pairs, its adjoint.

SO(2), SE(2) and SO(3) are embedded in SE(3), which has six coordinates, as has Aff(2) (`affine`).
Both files give

* coordinates `(w0, ..., w5), valid` of the pairs of a tile `[queries, keys]`;
* from their gradients, two sets of six gradients: one with respect to the query, one to the key.

Rows of features, as `features` packs them, are read with `_row`. Only functions that the
interpreter has too are used: no libdevice, so no atan2, asinh or log1p.
"""

import torch
import triton
import triton.language as tl

from ...groups import series as _series

_ACOS = tl.constexpr(_series._ACOS_RATIO[torch.float32])
_JACOBIAN = tl.constexpr(_series._JACOBIAN_RATIO[torch.float32])
_JACOBIAN_SLOPE = tl.constexpr(
    tuple(k * c for k, c in enumerate(_series._JACOBIAN_RATIO[torch.float32]))[1:]
)
_SQRT2 = tl.constexpr(2**0.5)


@triton.jit
def _row(ptr, row: tl.constexpr, at, size):
    """Feature `row` of poses `at`; zeros past the end, whose `ok` is then 0 too."""
    return tl.load(ptr + row * size + at, mask=at < size, other=0.0)


@triton.jit
def _horner(COEFFICIENTS: tl.constexpr, TERMS: tl.constexpr, z):
    value = z * 0.0 + COEFFICIENTS[TERMS - 1]
    for n in tl.static_range(1, TERMS):
        value = value * z + COEFFICIENTS[TERMS - 1 - n]
    return value


@triton.jit
def _cross(a0, a1, a2, b0, b1, b2):
    return a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0


@triton.jit
def _rigid_relative(q, k, i, j, Nq, Nk):
    """Relative quaternion (1 - z, v) with scalar part >= 0, translation t, and both poses' ok."""
    iw, ix = _row(q, 0, i, Nq)[:, None], _row(q, 1, i, Nq)[:, None]
    iy, iz = _row(q, 2, i, Nq)[:, None], _row(q, 3, i, Nq)[:, None]
    jw, jx = _row(k, 0, j, Nk)[None, :], _row(k, 1, j, Nk)[None, :]
    jy, jz = _row(k, 2, j, Nk)[None, :], _row(k, 3, j, Nk)[None, :]
    sign = tl.where(iw * jw + ix * jx + iy * jy + iz * jz < 0, -1.0, 1.0)
    # d = sign q_j - q_i with the low halves of both: what a rounded quaternion has lost is all
    # that neighbouring poses differ by.
    lw = sign * _row(k, 4, j, Nk)[None, :] - _row(q, 4, i, Nq)[:, None]
    lx = sign * _row(k, 5, j, Nk)[None, :] - _row(q, 5, i, Nq)[:, None]
    ly = sign * _row(k, 6, j, Nk)[None, :] - _row(q, 6, i, Nq)[:, None]
    lz = sign * _row(k, 7, j, Nk)[None, :] - _row(q, 7, i, Nq)[:, None]
    dw, dx = (sign * jw - iw) + lw, (sign * jx - ix) + lx
    dy, dz = (sign * jy - iy) + ly, (sign * jz - iz) + lz
    c0, c1, c2 = _cross(ix, iy, iz, dx, dy, dz)
    v0, v1, v2 = iw * dx - dw * ix - c0, iw * dy - dw * iy - c1, iw * dz - dw * iz - c2
    # 1 - (scalar part) of unit quaternions, without the cancellation.
    z = (dw * dw + dx * dx + dy * dy + dz * dz) * 0.5
    s0 = _row(k, 8, j, Nk)[None, :] - _row(q, 8, i, Nq)[:, None]
    s1 = _row(k, 9, j, Nk)[None, :] - _row(q, 9, i, Nq)[:, None]
    s2 = _row(k, 10, j, Nk)[None, :] - _row(q, 10, i, Nq)[:, None]
    t0 = _row(q, 12, i, Nq)[:, None] * s0
    t0 += _row(q, 15, i, Nq)[:, None] * s1 + _row(q, 18, i, Nq)[:, None] * s2
    t1 = _row(q, 13, i, Nq)[:, None] * s0
    t1 += _row(q, 16, i, Nq)[:, None] * s1 + _row(q, 19, i, Nq)[:, None] * s2
    t2 = _row(q, 14, i, Nq)[:, None] * s0
    t2 += _row(q, 17, i, Nq)[:, None] * s1 + _row(q, 20, i, Nq)[:, None] * s2
    ok = (_row(q, 11, i, Nq)[:, None] > 0) & (_row(k, 11, j, Nk)[None, :] > 0)
    return z, v0, v1, v2, t0, t1, t2, ok


@triton.jit
def rigid_coords(q, k, i, j, Nq, Nk, limit):
    """u = t - (f/2) v x t + k v x (v x t) and sqrt(2) f v; valid where the scalar part > limit."""
    z, v0, v1, v2, t0, t1, t2, valid = _rigid_relative(q, k, i, j, Nq, Nk)
    f, k2 = _horner(_ACOS, 12, z), _horner(_JACOBIAN, 13, z)
    p0, p1, p2 = _cross(v0, v1, v2, t0, t1, t2)
    r0, r1, r2 = _cross(v0, v1, v2, p0, p1, p2)
    half = f * 0.5
    u0, u1, u2 = t0 - half * p0 + k2 * r0, t1 - half * p1 + k2 * r1, t2 - half * p2 + k2 * r2
    f = f * _SQRT2
    return u0, u1, u2, f * v0, f * v1, f * v2, valid & (1.0 - z > limit)


@triton.jit
def rigid_adjoint(q, k, i, j, Nq, Nk, g0, g1, g2, g3, g4, g5):
    """Gradients along the group, (translation, rotation) of g_i^-1 dg_i and of g_j^-1 dg_j."""
    z, v0, v1, v2, t0, t1, t2, _ok = _rigid_relative(q, k, i, j, Nq, Nk)
    f, k2, slope = _horner(_ACOS, 12, z), _horner(_JACOBIAN, 13, z), _horner(_JACOBIAN_SLOPE, 12, z)
    half = f * 0.5
    p0, p1, p2 = _cross(v0, v1, v2, t0, t1, t2)
    r0, r1, r2 = _cross(v0, v1, v2, p0, p1, p2)
    gf = (g3 * v0 + g4 * v1 + g5 * v2) * _SQRT2 - 0.5 * (g0 * p0 + g1 * p1 + g2 * p2)
    gz = 2.0 * k2 * gf + slope * (g0 * r0 + g1 * r1 + g2 * r2)  # df/dz = 2 k
    # With respect to v.
    a0, a1, a2 = _cross(t0, t1, t2, g0, g1, g2)
    vt, vg = v0 * t0 + v1 * t1 + v2 * t2, v0 * g0 + v1 * g1 + v2 * g2
    tg = 2.0 * (t0 * g0 + t1 * g1 + t2 * g2)
    scaled = f * _SQRT2
    h0 = scaled * g3 - half * a0 + k2 * (g0 * vt + t0 * vg - v0 * tg)
    h1 = scaled * g4 - half * a1 + k2 * (g1 * vt + t1 * vg - v1 * tg)
    h2 = scaled * g5 - half * a2 + k2 * (g2 * vt + t2 * vg - v2 * tg)
    # With respect to t.
    b0, b1, b2 = _cross(v0, v1, v2, g0, g1, g2)
    c0, c1, c2 = _cross(v0, v1, v2, b0, b1, b2)
    s0, s1, s2 = g0 + half * b0 + k2 * c0, g1 + half * b1 + k2 * c1, g2 + half * b2 + k2 * c2
    # exp(x) r and r exp(x) change (c, v) by (-v.x, c x -+ v x x) / 2.
    c = 1.0 - z
    m0, m1, m2 = (c * h0 + gz * v0) * 0.5, (c * h1 + gz * v1) * 0.5, (c * h2 + gz * v2) * 0.5
    n0, n1, n2 = _cross(v0, v1, v2, h0, h1, h2)
    n0, n1, n2 = n0 * 0.5, n1 * 0.5, n2 * 0.5
    l0, l1, l2 = _cross(t0, t1, t2, s0, s1, s2)
    # The key's translation gradient is R^T s, R of the relative quaternion.
    d0, d1, d2 = _cross(v0, v1, v2, s0, s1, s2)
    e0, e1, e2 = _cross(v0, v1, v2, d0, d1, d2)
    k0 = s0 + 2.0 * (e0 - c * d0)
    k1 = s1 + 2.0 * (e1 - c * d1)
    k3 = s2 + 2.0 * (e2 - c * d2)
    return (
        -s0, -s1, -s2, -(m0 + n0 + l0), -(m1 + n1 + l1), -(m2 + n2 + l2),
        k0, k1, k3, m0 - n0, m1 - n1, m2 - n2,
    )  # fmt: skip
