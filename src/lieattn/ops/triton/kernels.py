"""Triton kernels of the attention operator: one forward, two backward, flash-style tiles.

A program has a block of queries (or keys) of one head of one set and walks over the keys (or
queries). `log(g_i^-1 g_j)` is computed where it is needed and never stored, so memory is O(N).
The relations are computed again for every head: sharing them would keep the softmax of all heads
in one program.
"""

import triton
import triton.language as tl

from .. import _far
from .affine import affine_adjoint, affine_coords
from .geometry import rigid_adjoint, rigid_coords

FAR = tl.constexpr(_far.FAR)


@triton.jit
def _pairs(
    q, k, weights, mask, bias, b, h, i, j, Nq, Nk,
    mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
    AFFINE: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr, EXCLUDE_SELF: tl.constexpr,
):  # fmt: skip
    """Coordinates of a tile of pairs, their logits, -inf where a pair may not attend.

    Those of Aff(2) in float64: its coordinates may be as large as 1e26.
    """
    if AFFINE:
        w0, w1, w2, w3, w4, w5, valid = affine_coords(q, k, i, j, Nq, Nk, limit, slope)
    else:
        w0, w1, w2, w3, w4, w5, valid = rigid_coords(q, k, i, j, Nq, Nk, limit)
    # Overflow and NaN are off the chart too.
    size = tl.abs(w0) + tl.abs(w1) + tl.abs(w2) + tl.abs(w3) + tl.abs(w4) + tl.abs(w5)
    valid = valid & (size < float("inf"))
    w0, w1, w2 = tl.where(valid, w0, 0.0), tl.where(valid, w1, 0.0), tl.where(valid, w2, 0.0)
    w3, w4, w5 = tl.where(valid, w3, 0.0), tl.where(valid, w4, 0.0), tl.where(valid, w5, 0.0)
    row = weights + h * 6
    logits = -tl.load(row) * w0 * w0 - tl.load(row + 1) * w1 * w1 - tl.load(row + 2) * w2 * w2
    logits -= tl.load(row + 3) * w3 * w3 + tl.load(row + 4) * w4 * w4 + tl.load(row + 5) * w5 * w5
    allowed = valid & (i < Nq)[:, None] & (j < Nk)[None, :]
    if EXCLUDE_SELF:
        allowed = allowed & (i[:, None] != j[None, :])
    wide_i, wide_j = i.to(tl.int64)[:, None], j.to(tl.int64)[None, :]
    if MASK:
        at = mask + b * mask_b + h * mask_h + wide_i * mask_q + wide_j * mask_k
        allowed = allowed & (tl.load(at, mask=allowed, other=0) != 0)
    if BIAS:
        at = bias + b * bias_b + h * bias_h + wide_i * bias_q + wide_j * bias_k
        logits += tl.load(at, mask=allowed, other=0.0)
    logits = tl.where(allowed, logits, float("-inf"))
    w0, w1, w2 = w0.to(tl.float32), w1.to(tl.float32), w2.to(tl.float32)
    w3, w4, w5 = w3.to(tl.float32), w4.to(tl.float32), w5.to(tl.float32)
    return w0, w1, w2, w3, w4, w5, logits


@triton.jit
def _softmax_gradient(
    v, d_out, d_coords, rows, delta, bh, i, j, Nq, Nk, dv,
    w0, w1, w2, w3, w4, w5, logits, WIDTH: tl.constexpr,
):  # fmt: skip
    """a_ij, the gradient of the logits, and that of the coordinates through `sum_j a_ij w_ij`.

    And a_ij of the rows whose logits have a gradient: not those whose nearest key is beyond FAR.
    """
    row = bh * Nq + i
    queries, d = i < Nq, tl.arange(0, WIDTH)
    top = tl.load(rows + 3 * row, mask=queries, other=0.0)
    top = tl.where(top == float("-inf"), 0.0, top)
    norm = tl.load(rows + 3 * row + 1, mask=queries, other=1.0).to(tl.float32)
    nearest = tl.load(rows + 3 * row + 2, mask=queries, other=0.0)
    a = tl.exp((logits - top[:, None]).to(tl.float32)) / norm[:, None]
    go = tl.load(
        d_out + row[:, None] * dv + d[None, :], mask=queries[:, None] & (d < dv)[None, :], other=0.0
    )
    # The values of a tile, transposed.
    vt = tl.load(
        v + (bh * Nk + j)[None, :] * dv + d[:, None],
        mask=(j < Nk)[None, :] & (d < dv)[:, None],
        other=0.0,
    )
    at = d_coords + row * 6
    c0 = tl.load(at, mask=queries, other=0.0)[:, None]
    c1 = tl.load(at + 1, mask=queries, other=0.0)[:, None]
    c2 = tl.load(at + 2, mask=queries, other=0.0)[:, None]
    c3 = tl.load(at + 3, mask=queries, other=0.0)[:, None]
    c4 = tl.load(at + 4, mask=queries, other=0.0)[:, None]
    c5 = tl.load(at + 5, mask=queries, other=0.0)[:, None]
    ga = tl.dot(go, vt, input_precision="ieee")
    ga += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3 + c4 * w4 + c5 * w5
    near = tl.where((nearest <= FAR)[:, None], a, 0.0)
    gs = near * (ga - tl.load(delta + row, mask=queries, other=0.0)[:, None])
    return a, near, gs, go, a * c0, a * c1, a * c2, a * c3, a * c4, a * c5


@triton.jit
def _pose_gradients(
    q, k, weights, h, i, j, Nq, Nk, limit, slope, w0, w1, w2, w3, w4, w5, logits, gs,
    g0, g1, g2, g3, g4, g5, AFFINE: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile with respect to queries (6) and keys (6), zero for masked pairs."""
    row, twice = weights + h * 6, 2.0 * gs
    g0, g1 = g0 - tl.load(row) * w0 * twice, g1 - tl.load(row + 1) * w1 * twice
    g2, g3 = g2 - tl.load(row + 2) * w2 * twice, g3 - tl.load(row + 3) * w3 * twice
    g4, g5 = g4 - tl.load(row + 4) * w4 * twice, g5 - tl.load(row + 5) * w5 * twice
    if AFFINE:
        q0, q1, q2, q3, q4, q5, k0, k1, k2, k3, k4, k5 = affine_adjoint(
            q, k, i, j, Nq, Nk, limit, slope, g0, g1, g2, g3, g4, g5
        )
    else:
        q0, q1, q2, q3, q4, q5, k0, k1, k2, k3, k4, k5 = rigid_adjoint(
            q, k, i, j, Nq, Nk, g0, g1, g2, g3, g4, g5
        )
    # Zero times an infinite slope would be NaN.
    on = logits != float("-inf")
    return (
        _single(on, q0), _single(on, q1), _single(on, q2), _single(on, q3), _single(on, q4),
        _single(on, q5), _single(on, k0), _single(on, k1), _single(on, k2), _single(on, k3),
        _single(on, k4), _single(on, k5),
    )  # fmt: skip


@triton.jit
def _single(on, x):
    return tl.where(on, x, 0.0).to(tl.float32)


@triton.jit
def _store_six(ptr, row, inside, x0, x1, x2, x3, x4, x5):
    tl.store(ptr + row * 6, x0, mask=inside)
    tl.store(ptr + row * 6 + 1, x1, mask=inside)
    tl.store(ptr + row * 6 + 2, x2, mask=inside)
    tl.store(ptr + row * 6 + 3, x3, mask=inside)
    tl.store(ptr + row * 6 + 4, x4, mask=inside)
    tl.store(ptr + row * 6 + 5, x5, mask=inside)


@triton.jit
def forward(
    q, k, v, weights, mask, bias, out, coords, rows, H, Nq, Nk, dv,
    mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
    FEATURES: tl.constexpr, AFFINE: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    EXCLUDE_SELF: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """`out` and `coords` of a block of queries, online softmax over the keys.

    `rows` keeps three float64 numbers of each query for the backward pass: its largest logit, the
    sum of exp(logit - largest), which may be lost in their logarithm's sum, and the size of its
    nearest key's coordinates.
    """
    blocks = tl.cdiv(Nq, BLOCK)
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    i = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, WIDTH)
    q += b * FEATURES * Nq
    k += b * FEATURES * Nk
    top = tl.full([BLOCK], float("-inf"), tl.float64 if AFFINE else tl.float32)
    nearest = tl.full([BLOCK], float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mixed = tl.zeros([BLOCK, WIDTH], tl.float32)
    c0, c1, c2 = total, total, total
    c3, c4, c5 = total, total, total
    for start in range(0, Nk, BLOCK):
        j = start + tl.arange(0, BLOCK)
        w0, w1, w2, w3, w4, w5, logits = _pairs(
            q, k, weights, mask, bias, b, h, i, j, Nq, Nk,
            mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
            AFFINE, MASK, BIAS, EXCLUDE_SELF,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(logits, 1))
        # A row with nothing to attend to yet: exp(-inf - 0), not exp(-inf + inf).
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        decay = tl.exp((top - safe).to(tl.float32))
        a = tl.exp((logits - safe[:, None]).to(tl.float32))
        top = higher
        size = tl.maximum(tl.maximum(tl.abs(w0), tl.abs(w1)), tl.maximum(tl.abs(w2), tl.abs(w3)))
        size = tl.maximum(size, tl.maximum(tl.abs(w4), tl.abs(w5)))
        size = tl.where(logits == float("-inf"), float("inf"), size)
        nearest = tl.minimum(nearest, tl.min(size, 1))
        total = total * decay + tl.sum(a, 1)
        vs = tl.load(
            v + (bh * Nk + j)[:, None] * dv + d[None, :],
            mask=(j < Nk)[:, None] & (d < dv)[None, :],
            other=0.0,
        )
        mixed = mixed * decay[:, None] + tl.dot(a, vs, input_precision="ieee")
        c0, c1 = c0 * decay + tl.sum(a * w0, 1), c1 * decay + tl.sum(a * w1, 1)
        c2, c3 = c2 * decay + tl.sum(a * w2, 1), c3 * decay + tl.sum(a * w3, 1)
        c4, c5 = c4 * decay + tl.sum(a * w4, 1), c5 * decay + tl.sum(a * w5, 1)
    # Not `total > 0`: a NaN must stay one.
    norm = tl.where(total == 0, 1.0, total)
    row, inside = bh * Nq + i, i < Nq
    tl.store(
        out + row[:, None] * dv + d[None, :],
        mixed / norm[:, None],
        mask=inside[:, None] & (d < dv)[None, :],
    )
    _store_six(
        coords, row, inside, c0 / norm, c1 / norm, c2 / norm, c3 / norm, c4 / norm, c5 / norm
    )
    tl.store(rows + 3 * row, top.to(tl.float64), mask=inside)
    tl.store(rows + 3 * row + 1, norm.to(tl.float64), mask=inside)
    tl.store(rows + 3 * row + 2, nearest.to(tl.float64), mask=inside)


@triton.jit
def backward_queries(
    q, k, v, weights, mask, bias, d_out, d_coords, rows, delta,
    d_q, d_weights, spread, surplus, d_bias, H, Nq, Nk, dv,
    mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k,
    d_bias_b, d_bias_h, d_bias_q, d_bias_k, limit, slope,
    FEATURES: tl.constexpr, AFFINE: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    EXCLUDE_SELF: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
    POSES: tl.constexpr, BIAS_GRADIENT: tl.constexpr,
):  # fmt: skip
    """Gradients of query poses, of the weights (a row each, to be summed) and of the bias.

    `spread` is sum_j a_ij w_ij^2 and `surplus` the sum of a row's logit gradients, of near rows.
    """
    blocks = tl.cdiv(Nq, BLOCK)
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    i = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    q += b * FEATURES * Nq
    k += b * FEATURES * Nk
    zero = tl.zeros([BLOCK], tl.float32)
    x0, x1, x2, x3, x4, x5 = zero, zero, zero, zero, zero, zero
    r0, r1, r2, r3, r4, r5 = zero, zero, zero, zero, zero, zero
    s0, s1, s2, s3, s4, s5, over = zero, zero, zero, zero, zero, zero, zero
    for start in range(0, Nk, BLOCK):
        j = start + tl.arange(0, BLOCK)
        w0, w1, w2, w3, w4, w5, logits = _pairs(
            q, k, weights, mask, bias, b, h, i, j, Nq, Nk,
            mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
            AFFINE, MASK, BIAS, EXCLUDE_SELF,
        )  # fmt: skip
        _a, near, gs, _go, g0, g1, g2, g3, g4, g5 = _softmax_gradient(
            v, d_out, d_coords, rows, delta, bh, i, j, Nq, Nk, dv,
            w0, w1, w2, w3, w4, w5, logits, WIDTH,
        )  # fmt: skip
        over += tl.sum(gs, 1)
        # Not w * w first, which overflows for keys of no weight: zero times infinity is NaN.
        r0, r1 = r0 - tl.sum(gs * w0 * w0, 1), r1 - tl.sum(gs * w1 * w1, 1)
        r2, r3 = r2 - tl.sum(gs * w2 * w2, 1), r3 - tl.sum(gs * w3 * w3, 1)
        r4, r5 = r4 - tl.sum(gs * w4 * w4, 1), r5 - tl.sum(gs * w5 * w5, 1)
        s0, s1 = s0 + tl.sum(near * w0 * w0, 1), s1 + tl.sum(near * w1 * w1, 1)
        s2, s3 = s2 + tl.sum(near * w2 * w2, 1), s3 + tl.sum(near * w3 * w3, 1)
        s4, s5 = s4 + tl.sum(near * w4 * w4, 1), s5 + tl.sum(near * w5 * w5, 1)
        if BIAS_GRADIENT:
            # Added, not stored: dimensions that the bias broadcasts over have stride 0.
            wide_i, wide_j = i.to(tl.int64)[:, None], j.to(tl.int64)[None, :]
            at = d_bias + b * d_bias_b + h * d_bias_h + wide_i * d_bias_q + wide_j * d_bias_k
            tl.atomic_add(at, gs, mask=logits != float("-inf"))
        if POSES:
            q0, q1, q2, q3, q4, q5, _k0, _k1, _k2, _k3, _k4, _k5 = _pose_gradients(
                q, k, weights, h, i, j, Nq, Nk, limit, slope, w0, w1, w2, w3, w4, w5, logits, gs,
                g0, g1, g2, g3, g4, g5, AFFINE,
            )  # fmt: skip
            x0, x1, x2 = x0 + tl.sum(q0, 1), x1 + tl.sum(q1, 1), x2 + tl.sum(q2, 1)
            x3, x4, x5 = x3 + tl.sum(q3, 1), x4 + tl.sum(q4, 1), x5 + tl.sum(q5, 1)
    row, inside = bh * Nq + i, i < Nq
    _store_six(d_weights, row, inside, r0, r1, r2, r3, r4, r5)
    _store_six(spread, row, inside, s0, s1, s2, s3, s4, s5)
    tl.store(surplus + row, over, mask=inside)
    if POSES:
        _store_six(d_q, row, inside, x0, x1, x2, x3, x4, x5)


@triton.jit
def backward_keys(
    q, k, v, weights, mask, bias, d_out, d_coords, rows, delta, d_k, d_v, H, Nq, Nk, dv,
    mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
    FEATURES: tl.constexpr, AFFINE: tl.constexpr, MASK: tl.constexpr, BIAS: tl.constexpr,
    EXCLUDE_SELF: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, POSES: tl.constexpr,
):  # fmt: skip
    """Gradients of values and key poses."""
    blocks = tl.cdiv(Nk, BLOCK)
    bh = (tl.program_id(0) // blocks).to(tl.int64)
    b, h = bh // H, bh % H
    j = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, WIDTH)
    q += b * FEATURES * Nq
    k += b * FEATURES * Nk
    gv = tl.zeros([BLOCK, WIDTH], tl.float32)
    zero = tl.zeros([BLOCK], tl.float32)
    x0, x1, x2, x3, x4, x5 = zero, zero, zero, zero, zero, zero
    for start in range(0, Nq, BLOCK):
        i = start + tl.arange(0, BLOCK)
        w0, w1, w2, w3, w4, w5, logits = _pairs(
            q, k, weights, mask, bias, b, h, i, j, Nq, Nk,
            mask_b, mask_h, mask_q, mask_k, bias_b, bias_h, bias_q, bias_k, limit, slope,
            AFFINE, MASK, BIAS, EXCLUDE_SELF,
        )  # fmt: skip
        a, _near, gs, go, g0, g1, g2, g3, g4, g5 = _softmax_gradient(
            v, d_out, d_coords, rows, delta, bh, i, j, Nq, Nk, dv,
            w0, w1, w2, w3, w4, w5, logits, WIDTH,
        )  # fmt: skip
        gv += tl.dot(tl.trans(a), go, input_precision="ieee")
        if POSES:
            _q0, _q1, _q2, _q3, _q4, _q5, k0, k1, k2, k3, k4, k5 = _pose_gradients(
                q, k, weights, h, i, j, Nq, Nk, limit, slope, w0, w1, w2, w3, w4, w5, logits, gs,
                g0, g1, g2, g3, g4, g5, AFFINE,
            )  # fmt: skip
            x0, x1, x2 = x0 + tl.sum(k0, 0), x1 + tl.sum(k1, 0), x2 + tl.sum(k2, 0)
            x3, x4, x5 = x3 + tl.sum(k3, 0), x4 + tl.sum(k4, 0), x5 + tl.sum(k5, 0)
    row, inside = bh * Nk + j, j < Nk
    at = d_v + row[:, None] * dv + d[None, :]
    tl.store(at, gv, mask=inside[:, None] & (d < dv)[None, :])
    if POSES:
        _store_six(d_k, row, inside, x0, x1, x2, x3, x4, x5)
