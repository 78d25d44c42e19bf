"""What the paper proves about the algebras, computed from a basis alone.

Blocks come from the orthogonal action (Section 3.6: "the group dictates K"), and the existence of
an Ad-invariant metric from the structure of the algebra (the remarks of Sections 2 and 3). All
functions take a basis `[dim, m, m]` or a `Group` and work in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from .base import Group

_TOLERANCE = 1e-9


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


def orthogonal_action(algebra: Tensor | Group) -> Tensor:
    """Matrices `[r, d, d]` that generate the orthogonal action on the algebra's coordinates.

    X -> Q X Q^T for the rotations Q that the algebra itself contains (given by their generators,
    skew matrices) and for the reflections diag(+-1, ..., +-1) that map the algebra to itself.
    """
    basis = _orthonormal(algebra)
    d, m = basis.shape[:2]
    ad = structure_constants(basis).mT
    skew = _null_space((basis + basis.mT).flatten(1).mT)
    actions = [torch.einsum("z,zij->ij", y, ad) for y in skew]
    for signs in product((1.0, -1.0), repeat=m - 1):
        q = torch.tensor((1.0, *signs), dtype=torch.float64)
        moved = basis * q[:, None] * q
        action = torch.einsum("iab,jab->ji", moved, basis)
        if (torch.einsum("ji,jab->iab", action, basis) - moved).abs().max() < _TOLERANCE:
            actions.append(action)
    return torch.stack(actions) if actions else torch.zeros(0, d, d, dtype=torch.float64)


def irreducible_blocks(algebra: Tensor | Group) -> list[Tensor]:
    """Orthonormal bases `[k, d]`, in coordinates, of the irreducible blocks of the algebra.

    Symmetric matrices that commute with the action have the blocks as their eigenspaces; a generic
    one tells them all apart. Its entries are fixed, so the answer is the same every time.
    """
    basis = _orthonormal(algebra)
    d, m = basis.shape[:2]
    symmetric = _symmetric_basis(d)
    actions = orthogonal_action(basis)
    commutators = torch.einsum("sik,rkj->srij", symmetric, actions)
    commutators = commutators - torch.einsum("rik,skj->srij", actions, symmetric)
    commutant = torch.einsum("ks,sij->kij", _null_space(commutators.flatten(1).mT), symmetric)
    # Generic, but constant on the entries of the matrices: equivalent blocks split along them.
    weights = torch.cos(torch.arange(1, m * m + 1, dtype=torch.float64) * 1.7).reshape(m, m)
    probe = torch.einsum("iab,ab,jab->ij", basis, weights, basis)
    element = torch.einsum("k,kij->ij", torch.einsum("kij,ij->k", commutant, probe), commutant)
    values, vectors = torch.linalg.eigh(element)
    groups: list[list[int]] = []
    for i in range(d):
        if groups and values[i] - values[groups[-1][-1]] < 1e-7:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [_aligned(vectors[:, group]) for group in groups]


def _aligned(columns: Tensor) -> Tensor:
    """Orthonormal rows spanning the same space, as close to coordinate axes as it allows."""
    projector = columns @ columns.mT
    rows: list[Tensor] = []
    for axis in projector:
        rest = axis - sum((row * (row @ axis) for row in rows), start=torch.zeros_like(axis))
        if rest.norm() > 1e-6:
            rows.append(rest / rest.norm())
    return torch.stack(rows)


def _symmetric_basis(d: int) -> Tensor:
    rows, columns = torch.triu_indices(d, d)
    basis = torch.zeros(len(rows), d, d, dtype=torch.float64)
    index = torch.arange(len(rows))
    basis[index, rows, columns] = 1
    basis[index, columns, rows] = 1
    return basis / torch.linalg.matrix_norm(basis)[:, None, None]


def _null_space(matrix: Tensor) -> Tensor:
    """Orthonormal rows x with matrix @ x = 0."""
    if matrix.shape[0] == 0:
        return torch.eye(matrix.shape[1], dtype=torch.float64)
    _, sigma, vh = torch.linalg.svd(matrix, full_matrices=True)
    rank = int((sigma > _TOLERANCE * max(1.0, float(sigma.max()))).sum())
    return vh[rank:]


def _range(rows: Tensor) -> Tensor:
    """Orthonormal basis, as rows, of the span of the rows."""
    _, sigma, vh = torch.linalg.svd(rows, full_matrices=False)
    return vh[: int((sigma > _TOLERANCE).sum())]
