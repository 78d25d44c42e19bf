"""Products and inverses of batches of very small matrices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .tensors import autocasting, transformed


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product of small matrices, never below the precision of its inputs.

    Under autocast `@` would run in bfloat16, a compiler fuses sums of products but not calls to a
    BLAS, and a BLAS copies component-major input: all three get the sum of outer products. Plain
    tensors in eager mode get `@`, the faster of the two there.
    """
    if torch.compiler.is_compiling() or autocasting(a) or a.stride(-1) != 1:
        total = a[..., :, 0, None] * b[..., 0, None, :]
        for k in range(1, a.shape[-1]):
            total = total + a[..., :, k, None] * b[..., k, None, :]
        return total
    return a @ b


def same_dtype(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the wider of their dtypes."""
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def component_major(a: Tensor, dims: int) -> Tensor:
    """The same tensor, stored so that the entries of all items with one index lie side by side.

    The last `dims` dimensions become the slowest in memory and elementwise operations keep that:
    each runs along the batch instead of along rows of two or three.
    """
    front, back = tuple(range(dims)), tuple(range(-dims, 0))
    return a.movedim(back, front).contiguous().movedim(front, back)


def stack(parts: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    """Stack along a new last dimension, component-major."""
    return torch.stack(torch.broadcast_tensors(*parts), dim=0).movedim(0, -1)


def mul_vec(a: Tensor, v: Tensor) -> Tensor:
    """Matrix times vector, `[..., n, n]` and `[..., n]`."""
    total = a[..., 0] * v[..., 0, None]
    for k in range(1, a.shape[-1]):
        total = total + a[..., k] * v[..., k, None]
    return total


def cross(a: Tensor, b: Tensor) -> Tensor:
    """Cross product of `[..., 3]`; written out, since torch.linalg.cross does not broadcast sizes
    known only at run time."""
    a0, a1, a2 = a.unbind(-1)
    b0, b1, b2 = b.unbind(-1)
    return stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0))


def adjugate(a: Tensor) -> tuple[Tensor, Tensor]:
    """Adjugate and determinant of 2x2 or 3x3 matrices; `a^-1 = adjugate / det`."""
    if a.shape[-1] == 2:
        (p, q), (r, s) = (row.unbind(-1) for row in a.unbind(-2))
        return stack((s, -q, -r, p)).unflatten(-1, (2, 2)), p * s - q * r
    (a0, a1, a2), (b0, b1, b2), (c0, c1, c2) = (row.unbind(-1) for row in a.unbind(-2))
    x, y, z = b1 * c2 - b2 * c1, b2 * c0 - b0 * c2, b0 * c1 - b1 * c0
    entries = (
        (x, a2 * c1 - a1 * c2, a1 * b2 - a2 * b1),
        (y, a0 * c2 - a2 * c0, a2 * b0 - a0 * b2),
        (z, a1 * c0 - a0 * c1, a0 * b1 - a1 * b0),
    )
    adj = stack([entry for row in entries for entry in row]).unflatten(-1, (3, 3))
    return adj, a0 * x + a1 * y + a2 * z


def inverse(a: Tensor) -> Tensor:
    """Inverse of 2x2 or 3x3 matrices by cofactors: no pivoting, no host sync."""
    adj, det = adjugate(a)
    return adj / det[..., None, None]


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Dot product of `[..., n]`, term by term: faster than a reduction over two or three."""
    total = a[..., 0] * b[..., 0]
    for k in range(1, a.shape[-1]):
        total = total + a[..., k] * b[..., k]
    return total


def largest_entry(a: Tensor) -> Tensor:
    """Largest absolute value of the entries of `[..., n, k]`."""
    entries = [a[..., i, j].abs() for i in range(a.shape[-2]) for j in range(a.shape[-1])]
    largest = entries[0]
    for entry in entries[1:]:
        largest = torch.maximum(largest, entry)
    return largest


def trace(a: Tensor) -> Tensor:
    total = a[..., 0, 0]
    for k in range(1, a.shape[-1]):
        total = total + a[..., k, k]
    return total


def widen(a: Tensor) -> Tensor:
    """In float64 where that exists: for what the working precision cannot hold.

    Not on MPS devices, and not in programs for ONNX: onnxruntime lacks functions in float64.
    """
    for_onnx = torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
    return a if for_onnx or a.device.type == "mps" else a.double()


def widened(g: Tensor) -> Tensor:
    """`widen`; gradients beyond the range of the given precision become its largest numbers."""
    wide = widen(g)
    watched = wide is not g and wide.requires_grad
    if watched and not torch.compiler.is_compiling() and not transformed():
        largest = torch.finfo(g.dtype).max
        wide.register_hook(lambda grad: grad.clamp(-largest, largest))
    return wide


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


def block_diagonal(parts: Sequence[Tensor]) -> Tensor:
    """Matrices `[..., a, a]`, `[..., b, b]`, ... on the diagonal of `[..., a + b + .., ..]`."""
    batch = torch.broadcast_shapes(*(part.shape[:-2] for part in parts))
    sizes = [part.shape[-1] for part in parts]
    size, start, rows = sum(sizes), 0, []
    for part, own in zip(parts, sizes, strict=True):
        part = part.expand(*batch, own, own)
        left = part.new_zeros(*batch, own, start)
        right = part.new_zeros(*batch, own, size - start - own)
        rows.append(torch.cat((left, part, right), dim=-1))
        start += own
    return torch.cat(rows, dim=-2)


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
    r0, r1, r2 = a.unbind(-2)
    rows = (_accurate_cross(r1, r2), _accurate_cross(r2, r0), _accurate_cross(r0, r1))
    adj = stack([rows[j][..., i] for i in range(3) for j in range(3)]).unflatten(-1, (3, 3))
    return adj, mul_vec(r0[..., None, :], rows[0])[..., 0]


def _accurate_cross(a: Tensor, b: Tensor) -> Tensor:
    (a0, a1, a2), (b0, b1, b2) = a.unbind(-1), b.unbind(-1)
    return difference_of_products(
        stack((a1, a2, a0)), stack((b2, b0, b1)), stack((a2, a0, a1)), stack((b1, b2, b0))
    )
