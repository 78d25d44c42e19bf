"""Products and inverses of batches of very small matrices."""

from __future__ import annotations

import torch
from torch import Tensor


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product of small matrices, never below the precision of its inputs.

    Under autocast `@` would run in bfloat16, and a compiler fuses sums of products but not calls
    to a BLAS: both get the sum of outer products. Eager mode gets `@`, the faster of the two there.
    """
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(a.device.type):
        terms = (a[..., :, k, None] * b[..., k, None, :] for k in range(a.shape[-1]))
        return sum(terms, start=torch.zeros((), dtype=a.dtype, device=a.device))
    return a @ b


def mul_vec(a: Tensor, v: Tensor) -> Tensor:
    """Matrix times vector, `[..., n, n]` and `[..., n]`."""
    return (a * v[..., None, :]).sum(-1)


def cross(a: Tensor, b: Tensor) -> Tensor:
    """Cross product of `[..., 3]`; written out, since torch.linalg.cross does not broadcast sizes
    known only at run time."""
    a0, a1, a2 = a.unbind(-1)
    b0, b1, b2 = b.unbind(-1)
    return torch.stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0), dim=-1)


def adjugate(a: Tensor) -> tuple[Tensor, Tensor]:
    """Adjugate and determinant of 2x2 or 3x3 matrices; `a^-1 = adjugate / det`."""
    if a.shape[-1] == 2:
        (p, q), (r, s) = (row.unbind(-1) for row in a.unbind(-2))
        adj = torch.stack((torch.stack((s, -q), -1), torch.stack((-r, p), -1)), dim=-2)
        return adj, p * s - q * r
    r0, r1, r2 = a.unbind(-2)
    first = cross(r1, r2)
    return torch.stack((first, cross(r2, r0), cross(r0, r1)), dim=-1), (r0 * first).sum(-1)


def inverse(a: Tensor) -> Tensor:
    """Inverse of 2x2 or 3x3 matrices by cofactors: no pivoting, no host sync."""
    adj, det = adjugate(a)
    return adj / det[..., None, None]


def trace(a: Tensor) -> Tensor:
    return a.diagonal(dim1=-2, dim2=-1).sum(-1)


def widen(a: Tensor) -> Tensor:
    """In float64 where the device has it: for what the working precision cannot hold."""
    return a if a.device.type == "mps" else a.double()


def eye_like(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def homogeneous(linear: Tensor, t: Tensor) -> Tensor:
    """Assemble `[[linear, t], [0, 1]]`, `[..., n+1, n+1]`."""
    batch = torch.broadcast_shapes(linear.shape[:-2], t.shape[:-1])
    n = linear.shape[-1]
    top = torch.cat((linear.expand(*batch, n, n), t.expand(*batch, n)[..., None]), dim=-1)
    last = torch.zeros(n + 1, dtype=linear.dtype, device=linear.device)
    last[n] = 1
    return torch.cat((top, last.expand(*batch, 1, n + 1)), dim=-2)


def linear_map(x: Tensor, matrix: Tensor) -> Tensor:
    """Row vectors `[..., k]` times one matrix `[k, d]`."""
    return mul(x[..., None, :], matrix)[..., 0, :]


def difference_of_products(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """a b - c d to the last bit, cancellation or not (the products' rounding errors are added)."""
    value = a * b - c * d
    with torch.no_grad():
        ab, cd = a * b, c * d
        high = ab - cd
        exact = high + (
            (product_error(a, b, ab) - product_error(c, d, cd)) + _difference_error(ab, cd, high)
        )
        # An overflowing split must not spoil a finite value.
        correction = torch.where(exact.isfinite(), exact, value) - value
    return value + correction


def product_error(a: Tensor, b: Tensor, ab: Tensor) -> Tensor:
    """a b - fl(a b), exactly (Dekker)."""
    a_high, b_high = _high_half(a), _high_half(b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - ab) + a_high * b_low + a_low * b_high) + a_low * b_low


def _difference_error(a: Tensor, b: Tensor, difference: Tensor) -> Tensor:
    """(a - b) - fl(a - b), exactly (Knuth)."""
    back = a - difference
    return (a - (difference + back)) + (back - b)


def _high_half(a: Tensor) -> Tensor:
    scaled = a * (4097.0 if a.dtype == torch.float32 else 134217729.0)
    return scaled - (scaled - a)


def accurate_inverse(a: Tensor) -> Tensor:
    """Inverse of 2x2 or 3x3 matrices whose cofactors are exact to the last bit.

    What error is left is that of the determinant, one factor common to all entries. For O(N) work
    such as inverting the poses of a set; `inverse` is for O(N^2) work.
    """
    adj, det = accurate_adjugate(a)
    return adj / det[..., None, None]


def accurate_adjugate(a: Tensor) -> tuple[Tensor, Tensor]:
    """Adjugate exact to the last bit, and a determinant good to eps times the condition number."""
    if a.shape[-1] == 2:
        adj, _ = adjugate(a)
        det = difference_of_products(a[..., 0, 0], a[..., 1, 1], a[..., 0, 1], a[..., 1, 0])
        return adj, det
    # Row i of the cofactor matrix is the cross product of the two other rows.
    one, two = a.roll(-1, -2), a.roll(-2, -2)
    cofactors = difference_of_products(
        one.roll(-1, -1), two.roll(-2, -1), one.roll(-2, -1), two.roll(-1, -1)
    )
    return cofactors.mT, (a * cofactors)[..., 0, :].sum(-1)
