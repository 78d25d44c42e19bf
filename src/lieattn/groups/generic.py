"""`matrix_group`: any matrix Lie group from a basis of its algebra."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from .._core.small import eye_like, mul
from .._core.tensors import tensor
from . import _expm, _logm, checks, theory
from ._blocks import KINDS, Block, numbered
from .base import Draw, Group


def matrix_group(name: str, basis: Tensor) -> Group:
    """The matrix Lie group whose algebra is spanned by `basis`, `[d, m, m]`.

    The basis may have any order and norms. It is orthonormalised and sorted into the irreducible
    blocks of the orthogonal action (`theory.irreducible_blocks`); nothing else has to be
    given. Blocks are ordered by kind, those of a kind by where their first entry is, so they do not
    depend on the basis. Within a block coordinates follow the basis as it was given.

    The kind of a block is read off its matrices: skew ones are a rotation; those whose only
    entries are in columns of coordinates that the group leaves alone (as the last one of
    homogeneous coordinates) a translation; a multiple of diag(1, .., 1, 0, .., 0), in any order, a
    scale; symmetric ones without a trace a shear; the rest is "other".

    Raises ValueError if the matrices are dependent or do not close under the bracket.

    >>> import torch
    >>> upper = torch.zeros(3, 3, 3)
    >>> upper[0, 0, 1] = upper[1, 1, 2] = upper[2, 0, 2] = 1
    >>> heisenberg = matrix_group("Heisenberg", upper)
    >>> [block.name for block in heisenberg.blocks]
    ['translation', 'translation2', 'other']
    """
    return _MatrixGroup(name, basis)


class _MatrixGroup(Group):
    """A group known by its generators: exp and log are those of matrices."""

    charts = ("principal",)

    def __init__(self, name: str, basis: Tensor) -> None:
        self.name = name
        self._given = basis
        algebra = _validated(name, basis)
        self.n = self.matrix_size = basis.shape[-1]
        rounding = _rounding(basis)
        parts = [
            torch.einsum("ki,iab->kab", rows, algebra)
            for rows in theory.irreducible_blocks(algebra, rounding)
        ]
        fixed = algebra.abs().amax((0, 2)) < rounding  # coordinates that the group leaves alone
        found = [(_kind(part, fixed, rounding), part) for part in parts]
        found.sort(key=lambda block: (KINDS.index(block[0]), _first_entry(block[1], rounding)))
        self.blocks = numbered(Block(kind, len(part)) for kind, part in found)
        self._ordered = torch.cat([part for _, part in found])
        self._own_units = [unit for block in found for unit in [_unit(*block)] * len(block[1])]
        self._prepare()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"lieattn.matrix_group({self.name!r}, dim={self.dim}, size={self.matrix_size})"

    def __reduce__(self) -> tuple[Callable[..., Group], tuple[str, Tensor]]:  # type: ignore[override]
        return matrix_group, (self.name, self._given)

    def _generators(self) -> Tensor:
        return self._ordered

    @property
    def _units(self) -> list[float]:
        return self._own_units

    def inverse(self, g: Tensor) -> Tensor:
        # Singular matrices give anything: `linalg.inv` raises, and waits for the device.
        return torch.linalg.inv_ex(checks.poses(self, g))[0]

    def admits(self, g: Tensor) -> Tensor:
        inverse, info = torch.linalg.inv_ex(g.detach())
        return super().admits(g) & (info == 0) & super().admits(inverse)

    def _exp(self, x: Tensor) -> Tensor:
        return _expm.expm(self.hat(x))

    def _log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return self._log_excess(g, g - eye_like(g))

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        inverse = self.inverse(a)
        return self._log_excess(mul(inverse, b), mul(inverse, b - a))

    def _log_excess(self, g: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        X, valid = _logm.log_excess(g, e)
        x = self.vee(X)
        # A principal logarithm outside the algebra is one of another group's: not a coordinate.
        miss = (X - self.hat(x)).detach().abs().amax((-2, -1))
        size = 1 + X.detach().abs().amax((-2, -1))
        return x, valid & (miss <= size * torch.finfo(g.dtype).eps ** 0.5)

    def _clearance(self, g: Tensor) -> Tensor:
        return _logm.margin(g)

    def _random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        x = draw.normal(2, *batch, self.dim) / 2
        return mul(self.exp(x[0]), self.exp(x[1]))

    def project(self, g: Tensor) -> Tensor:
        """Exponential of the part of log g that lies in the algebra; NaN off the chart."""
        X, valid = _logm.log_excess(checks.poses(self, g), g - eye_like(g))
        return torch.where(valid[..., None, None], self.exp(self.vee(X)), torch.nan)

    def _settle(self, g: Tensor) -> Tensor:
        # `project` needs a logarithm, which products of many elements need not have.
        return g

    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        eps = torch.finfo(g.dtype).eps
        sigma = torch.linalg.svdvals(g)
        condition = sigma[..., 0] / sigma[..., -1]
        safe = torch.where((condition < 0.1 / eps)[..., None, None], g, eye_like(g))
        basis = self.basis(dtype=g.dtype, device=g.device)
        moved = safe[..., None, :, :] @ basis @ torch.linalg.inv(safe)[..., None, :, :]
        off = (moved - self.hat(self.vee(moved))).abs().amax((-3, -2, -1))
        off = off / moved.abs().amax((-3, -2, -1))
        X, valid = _logm.log_excess(safe, safe - eye_like(safe))
        miss = (X - self.hat(self.vee(X))).abs().amax((-2, -1)) / (1 + X.abs().amax((-2, -1)))
        mend = "{group}.project(g) gives an element nearby."
        return [
            (condition, 0.1 / eps, "it is singular, condition number {by} (limit {tolerance})."),
            (off, eps**0.5, f"conjugation by it leaves the algebra by {{by}}. {mend}"),
            (
                torch.where(valid, miss, 0),
                eps**0.5,
                f"its logarithm misses the algebra by {{by}} (tolerance {{tolerance}}). {mend}",
            ),
        ]


def _validated(name: str, basis: Tensor) -> Tensor:
    """Orthonormal basis `[d, m, m]` in float64, or an error that names what is wrong."""
    tensor(basis, f"the basis of {name}")
    if basis.dim() != 3 or basis.shape[-1] != basis.shape[-2] or len(basis) == 0:
        raise ValueError(
            f"the basis of {name} must have shape [d, m, m] with d >= 1, got {list(basis.shape)}."
        )
    if not basis.isfinite().all():
        raise ValueError(f"the basis of {name} holds NaN or infinity.")
    flat = basis.double().flatten(1)
    norms = flat.norm(dim=1, keepdim=True)
    sigma = torch.linalg.svdvals(flat / norms.clamp_min(torch.finfo(torch.float64).tiny))
    rank = int((sigma > 1e-6).sum())
    if rank < len(basis):
        raise ValueError(
            f"the basis of {name} has {len(basis)} matrices that span {rank} dimensions only. "
            "Leave out those that depend on the others."
        )
    q, r = torch.linalg.qr(flat.mT)
    algebra = (q * r.diagonal().sign()).mT.reshape(basis.shape)
    products = torch.einsum("iab,jbc->ijac", algebra, algebra)
    brackets = products - products.transpose(0, 1)
    inside = torch.einsum(
        "ijk,kab->ijab", torch.einsum("ijab,kab->ijk", brackets, algebra), algebra
    )
    miss = (brackets - inside).flatten(2).norm(dim=-1)
    tolerance = 1e-9 if basis.dtype == torch.float64 else 1e-5
    if miss.max() > tolerance:
        i, j = divmod(int(miss.argmax()), len(basis))
        raise ValueError(
            f"the basis of {name} is not a Lie algebra: the bracket of (orthonormalised) elements "
            f"{i} and {j} leaves its span by {miss.max():.2g}. Add the missing brackets."
        )
    return algebra


def _rounding(basis: Tensor) -> float:
    """Entries of the orthonormalised basis below this are zero."""
    return 1e-6 if basis.dtype == torch.float64 else 1e-4


def _kind(part: Tensor, fixed: Tensor, rounding: float) -> str:
    """The kind of a block `[k, m, m]` of a group that leaves the coordinates `fixed [m]` alone."""
    if (part + part.mT).abs().max() < rounding:
        return "rotation"
    if fixed.any() and (part[..., ~fixed].abs() < rounding).all():
        return "translation"
    if (part - part.mT).abs().max() < rounding:
        if part.diagonal(dim1=-2, dim2=-1).sum(-1).abs().max() < rounding:
            return "shear"
        if len(part) == 1 and _is_partial_identity(part[0], rounding):
            return "scale"
    return "other"


def _is_partial_identity(x: Tensor, rounding: float) -> bool:
    """Whether x is a multiple of a diagonal matrix of zeros and ones."""
    ones = (x.abs() > rounding).diagonal()
    return bool((x - torch.diag(ones * x.trace() / ones.sum())).abs().max() < rounding)


def _first_entry(part: Tensor, rounding: float) -> int:
    """Where the matrices of a block `[k, m, m]` have their first entry, by rows."""
    return int((part.abs().amax(0).flatten() > rounding).nonzero()[0])


def _unit(kind: str, part: Tensor) -> float:
    """Physical size of a unit coordinate of a block `[k, m, m]`: an angle, a logarithm of scale.

    A rotation by a unit coordinate turns k planes by the same angle, 1 / sqrt(2 k).
    """
    if kind == "scale":
        return float(part.abs().max())
    if kind == "shear":
        return 1 / sqrt(2)
    if kind == "rotation":
        # sum_i X_i^T X_i is (n - 1) / 2 for so(n) of unit generators on space, 1 / k on k copies.
        planes = (sqrt(1 + 8 * len(part)) - 1) / 2
        return float(torch.linalg.matrix_norm(part.flatten(0, 1), 2)) / sqrt(planes)
    return 1.0
