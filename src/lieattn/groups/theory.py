"""The properties of algebras that the paper proves, computed from a basis alone.

Blocks come from the orthogonal action (Section 3.6: "the group dictates K"), and the existence of
an Ad-invariant metric from the structure of the algebra (the remarks of Sections 2 and 3). All
functions take a basis `[dim, m, m]` or a `Group` and work in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .base import Group

_TOLERANCE = 1e-9
_ROUNDING = 1e-6  # of a basis in float64, orthonormalised
_SCALAR = 1e-3  # a symmetric matrix of norm 1 that splits a block is farther from scalar
_GAP = 1e-4  # eigenvalues closer than this are left to the next form
_FORMS = 8  # random ones: one is enough but for bad luck


def _orthonormal(algebra: Tensor | Group) -> Tensor:
    basis = algebra.basis(dtype=torch.float64) if isinstance(algebra, Group) else algebra.double()
    flat = basis.flatten(1)
    gram = flat @ flat.mT
    if (gram - torch.eye(len(flat), dtype=torch.float64)).abs().max() < 1e-12:
        return basis
    q, r = torch.linalg.qr(flat.mT)
    return (q * r.diagonal().sign()).mT.reshape(basis.shape)


def structure_constants(algebra: Tensor | Group) -> Tensor:
    """c `[d, d, d]` with [B_i, B_j] = sum_k c_ijk B_k, in an orthonormal basis."""
    basis = _orthonormal(algebra)
    products = torch.einsum("iab,jbc->ijac", basis, basis)
    return torch.einsum("ijab,kab->ijk", products - products.transpose(0, 1), basis)


def killing_form(algebra: Tensor | Group) -> Tensor:
    """tr(ad_i ad_j), `[d, d]`."""
    c = structure_constants(algebra)
    return torch.einsum("ikl,jlk->ij", c, c)


def invariant_forms(algebra: Tensor | Group) -> Tensor:
    """Basis `[k, d, d]` of the Ad-invariant symmetric bilinear forms of the algebra.

    B([z, x], y) + B(x, [z, y]) = 0 for all x, y, z is linear in B: the answer is a null space.
    """
    c = structure_constants(algebra)
    d = len(c)
    ad = c.mT  # ad_z as a matrix acting on coordinates: ad[z] @ x
    symmetric = _symmetric_basis(d)
    conditions = torch.einsum("zki,skj->szij", ad, symmetric)
    conditions = conditions + torch.einsum("sik,zkj->szij", symmetric, ad)
    return torch.einsum("ks,sij->kij", _null_space(conditions.flatten(1).mT), symmetric)


@dataclass(frozen=True)
class InvariantMetric:
    """Whether a positive-definite Ad-invariant form exists, and what decides it.

    Reasons for: "abelian" (any inner product), "Killing" (its negative is one). Against: "radical"
    (a solvable ideal on which others act), "indefinite" (the Killing form of a non-compact
    semisimple algebra).
    """

    exists: bool
    reason: str


def invariant_metric(algebra: Tensor | Group) -> InvariantMetric:
    """Decide whether the algebra has an Ad-invariant inner product.

    It has one if and only if it is the direct sum of its centre and of an ideal on which the
    Killing form is negative definite (the algebra of a compact group).
    """
    c = structure_constants(algebra)
    d = len(c)
    centre = _null_space(c.transpose(0, 1).reshape(d, -1).mT)
    derived = _range(c.reshape(d * d, d))
    if len(derived) == 0:
        return InvariantMetric(True, "abelian")
    form = derived @ killing_form(algebra) @ derived.mT
    spectrum = torch.linalg.eigvalsh(form)
    together = len(_range(torch.cat((centre, derived))))
    if len(centre) + len(derived) == d == together and spectrum.max() < -_TOLERANCE:
        return InvariantMetric(True, "Killing")
    if spectrum.abs().min() < _TOLERANCE:
        return InvariantMetric(False, "radical")
    return InvariantMetric(False, "indefinite")


def normaliser(algebra: Tensor | Group, tolerance: float = _ROUNDING) -> Tensor:
    """Orthonormal basis `[r, m, m]` of the skew matrices Y with [Y, X] in the algebra for all X.

    They generate the connected part of the subgroup of O(m) that maps the algebra to itself.
    """
    basis = _orthonormal(algebra)
    m = basis.shape[-1]
    i, j = torch.triu_indices(m, m, offset=1)
    skew = torch.zeros(len(i), m, m, dtype=torch.float64)
    index = torch.arange(len(i))
    skew[index, i, j], skew[index, j, i] = 0.5**0.5, -(0.5**0.5)
    flat = basis.flatten(1)
    outside = torch.eye(m * m, dtype=torch.float64) - flat.mT @ flat
    conditions = (outside @ _commutators(skew, x).mT for x in basis)
    null = _null_space(*conditions, tolerance=tolerance)
    return torch.einsum("ks,sab->kab", null, skew)


def sign_changes(algebra: Tensor | Group, tolerance: float = _ROUNDING) -> Tensor:
    """Signs `[r, m]` that generate the group of the diag(+-1) which map the algebra to itself.

    With P the projection of all matrices on the algebra, signs s do so if and only if
    s_a s_b s_c s_d = 1 wherever P[ab, cd] is not zero: linear equations over the field of two
    elements, whose solution needs no search through all 2^m signs.
    """
    flat = _orthonormal(algebra).flatten(1)
    m = int(flat.shape[1] ** 0.5)
    entries = [1 << a ^ 1 << b for a in range(m) for b in range(m)]
    pairs = ((flat.mT @ flat).abs() > tolerance).nonzero().tolist()
    rows: dict[int, int] = {}  # reduced equations by their highest bit
    for equation in {entries[p] ^ entries[q] for p, q in pairs}:
        for bit, row in rows.items():
            equation ^= row if equation >> bit & 1 else 0
        if equation:
            top = equation.bit_length() - 1
            rows = {bit: row ^ equation if row >> top & 1 else row for bit, row in rows.items()}
            rows[top] = equation
    free = [bit for bit in range(m) if bit not in rows]
    flips = [[bit == f or bool(rows.get(bit, 0) >> f & 1) for bit in range(m)] for f in free]
    return 1 - 2 * torch.tensor(flips, dtype=torch.float64)


def orthogonal_action(algebra: Tensor | Group, tolerance: float = _ROUNDING) -> Tensor:
    """Matrices `[r, d, d]` that generate the orthogonal action on the algebra's coordinates.

    X -> Q X Q^T for the Q in O(m) that map the algebra to itself and are in the connected part of
    the group of such matrices, given by their generators, or are sign changes diag(+-1). Other
    components do not count: a permutation would make one block of the two angles of
    SO(2) x SO(2).
    """
    basis = _orthonormal(algebra)
    turns = [_commutators(basis, y).mT for y in normaliser(basis, tolerance)]
    flips = [(s[:, None] * basis * s).flatten(1).mT for s in sign_changes(basis, tolerance)]
    return torch.stack([basis.flatten(1) @ moved for moved in turns + flips])


def irreducible_blocks(algebra: Tensor | Group, tolerance: float = _ROUNDING) -> list[Tensor]:
    """Orthonormal bases `[k, d]`, in coordinates, of the irreducible blocks of the algebra.

    Symmetric matrices that commute with the action have sums of blocks as their eigenspaces. So
    the algebra is split by quadratic forms made to commute with the action, until every part is
    irreducible (all that commutes is scalar on it). Where blocks are equivalent the split is not
    unique, and the first form that tells them apart decides: tr X^2, of which symmetric, skew
    and nilpotent matrices have different values; then a fixed weighting of the squared entries of
    X, by which blocks keep to different entries where they can; then fixed random forms. All are
    functions of X, so blocks do not depend on the basis that the algebra is given in.

    Args:
        algebra: a basis `[d, m, m]`, of any norms and order, or a group.
        tolerance: below which numbers are rounding: 1e-6 does for bases in float64, 1e-4 for those
            that were rounded to float32.
    """
    basis = _orthonormal(algebra)
    commuting = commutant(orthogonal_action(basis, tolerance), tolerance)
    parts = [torch.eye(len(basis), dtype=torch.float64)]
    for form in _quadratic_forms(basis):
        element = torch.einsum("kij,ij,kab->ab", commuting, form, commuting)
        parts = [piece for part in parts for piece in _split(part, element, commuting)]
    return [_aligned(part) for part in parts]


def commutant(actions: Tensor, tolerance: float = _ROUNDING) -> Tensor:
    """Orthonormal basis `[k, d, d]` of the symmetric matrices that commute with all actions."""
    symmetric = _symmetric_basis(actions.shape[-1])
    conditions = (_commutators(symmetric, action).mT for action in actions)
    null = _null_space(*conditions, tolerance=tolerance)
    return torch.einsum("ks,sij->kij", null, symmetric)


def _quadratic_forms(basis: Tensor) -> Iterator[Tensor]:
    """Forms `[d, d]` on the algebra, functions of its matrices: see `irreducible_blocks`."""
    yield torch.einsum("iab,jba->ij", basis, basis)
    flat = basis.flatten(1)
    # Generic: no two entries, and no two sums of some, weigh the same.
    yield flat * (1.7 * torch.arange(1, flat.shape[1] + 1).double()).cos() @ flat.mT
    generator = Generator().manual_seed(0)
    for _ in range(_FORMS):
        form = torch.randn(2 * flat.shape[1:], generator=generator, dtype=torch.float64)
        yield flat @ (form + form.mT) @ flat.mT


def _split(part: Tensor, element: Tensor, commuting: Tensor) -> list[Tensor]:
    """The span of columns `[d, s]`, cut where eigenvalues of the element are apart."""
    inside = part.mT @ commuting @ part
    scalars = inside.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    if (inside - scalars * torch.eye(part.shape[1]).double()).abs().max() < _SCALAR:
        return [part]  # irreducible
    values, vectors = torch.linalg.eigh(part.mT @ element @ part)
    apart = (values.diff() > _GAP).nonzero()[:, 0] + 1
    return [part @ columns for columns in vectors.tensor_split(apart, dim=1)]


def _aligned(columns: Tensor) -> Tensor:
    """Orthonormal rows spanning the same space, as close to coordinate axes as it allows."""
    projector = columns @ columns.mT
    rows: list[Tensor] = []
    for axis in projector:
        rest = axis - sum((row * (row @ axis) for row in rows), start=torch.zeros_like(axis))
        if rest.norm() > 1e-3:  # one of d axes is farther than d^(-1/2) from what is missing
            rows.append(rest / rest.norm())
    return torch.stack(rows)


def _commutators(matrices: Tensor, x: Tensor) -> Tensor:
    """[M, x] for matrices `[s, m, m]`, flattened, `[s, m^2]`."""
    return (matrices @ x - x @ matrices).flatten(1)


def _symmetric_basis(d: int) -> Tensor:
    rows, columns = torch.triu_indices(d, d)
    basis = torch.zeros(len(rows), d, d, dtype=torch.float64)
    index = torch.arange(len(rows))
    basis[index, rows, columns] = 1
    basis[index, columns, rows] = 1
    return basis / torch.linalg.matrix_norm(basis)[:, None, None]


def _null_space(*matrices: Tensor, tolerance: float = _TOLERANCE) -> Tensor:
    """Orthonormal rows x with matrix @ x = 0 for all matrices, which have the same columns."""
    triangle = matrices[0][:0]
    for matrix in matrices:  # reduced one by one: together they may be large
        triangle = torch.linalg.qr(torch.cat((triangle, matrix)), mode="r").R
    _, sigma, vh = torch.linalg.svd(triangle, full_matrices=True)
    rank = int((sigma > tolerance * max(1.0, float(sigma.amax()))).sum()) if len(sigma) else 0
    return vh[rank:]


def _range(rows: Tensor) -> Tensor:
    """Orthonormal basis, as rows, of the span of the rows."""
    _, sigma, vh = torch.linalg.svd(rows, full_matrices=False)
    return vh[: int((sigma > _TOLERANCE).sum())]
