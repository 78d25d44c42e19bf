"""`matrix_group`: any matrix Lie group from a basis of its algebra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from . import _expm, _logm, _validate, theory
from ._small import eye_like, mul
from .base import Block, Group, _Device

_ORDER = ("translation", "rotation", "scale", "shear", "mixed")


def matrix_group(name: str, basis: Tensor) -> Group:
    """The matrix Lie group whose algebra is spanned by `basis`, `[d, m, m]`.

    The basis is orthonormalised and sorted into the irreducible blocks of the orthogonal action;
    nothing else needs to be said about the group.

    Raises ValueError if the matrices are dependent or do not close under the bracket.

    >>> import torch
    >>> upper = torch.zeros(3, 3, 3)
    >>> upper[0, 0, 1] = upper[1, 1, 2] = upper[2, 0, 2] = 1
    >>> heisenberg = matrix_group("Heisenberg", upper)
    >>> [block.dim for block in heisenberg.blocks]
    [1, 1, 1]
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
        named = sorted(
            ((_block_name(rows, algebra), rows) for rows in theory.irreducible_blocks(algebra)),
            key=lambda block: (_ORDER.index(block[0]), int(block[1][0].abs().argmax())),
        )
        self.blocks = _numbered([(kind, len(rows)) for kind, rows in named])
        self._ordered = torch.einsum("ki,iab->kab", torch.cat([rows for _, rows in named]), algebra)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"lieattn.matrix_group({self.name!r}, dim={self.dim}, size={self.matrix_size})"

    def __reduce__(self) -> tuple[Callable[..., Group], tuple[str, Tensor]]:  # type: ignore[override]
        return matrix_group, (self.name, self._given)

    def _generators(self) -> Tensor:
        return self._ordered

    def _blocks_of(self, x: Tensor) -> tuple[Block, ...]:
        _validate.coordinates(self, x)
        return self.blocks

    def _physical(self, x: Tensor) -> Tensor:
        factors = [
            0.5**0.5 if b.name == "rotation" else 1.0 for b in self.blocks for _ in range(b.dim)
        ]
        return torch.tensor(factors, dtype=x.dtype, device=x.device)

    def inverse(self, g: Tensor) -> Tensor:
        return torch.linalg.inv(_validate.poses(self, g))

    def _exp(self, x: Tensor) -> Tensor:
        return _expm.expm(self.hat(x))

    def _log(self, g: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        return self._log_excess(g, g - eye_like(g))

    def _log_relative(self, a: Tensor, b: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        inverse = self.inverse(a)
        return self._log_excess(mul(inverse, b), mul(inverse, b - a))

    def _log_excess(self, g: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        X, valid = _logm.log_excess(g, e)
        x = self.vee(X)
        # A principal logarithm outside the algebra is one of another group's: not a coordinate.
        miss = (X - self.hat(x)).detach().abs().amax((-2, -1))
        size = 1 + X.detach().abs().amax((-2, -1))
        return x, valid & (miss <= size * torch.finfo(g.dtype).eps ** 0.5)

    def _margin(self, g: Tensor, chart: str) -> Tensor:
        return _logm.margin(g)

    def random(
        self,
        *batch: int,
        generator: Generator | None = None,
        dtype: torch.dtype | None = None,
        device: _Device = None,
    ) -> Tensor:
        """Products of two exponentials of Gaussian coordinates (standard deviation 1/2)."""
        x = torch.randn(2, *batch, self.dim, generator=generator, dtype=dtype, device=device) / 2
        return mul(self.exp(x[0]), self.exp(x[1]))

    def project(self, g: Tensor) -> Tensor:
        """Exponential of the part of log g that lies in the algebra; NaN off the chart."""
        X, valid = _logm.log_excess(_validate.poses(self, g), g - eye_like(g))
        return torch.where(valid[..., None, None], self.exp(self.vee(X)), torch.nan)

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
    _validate.tensor(basis, f"the basis of {name}")
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


def _block_name(rows: Tensor, algebra: Tensor) -> str:
    """The paper's word for a block: by symmetry, trace and nilpotency of its elements."""
    matrices = torch.einsum("ki,iab->kab", rows, algebra)
    element = torch.einsum(
        "k,kab->ab", torch.linspace(1, 2, len(rows), dtype=torch.float64), matrices
    )
    if (matrices + matrices.mT).abs().max() < 1e-9:
        return "rotation"
    if (matrices - matrices.mT).abs().max() < 1e-9:
        return "scale" if element.trace().abs() > 1e-9 else "shear"
    if torch.linalg.matrix_power(element, len(element)).abs().max() < 1e-9:
        return "translation"
    return "mixed"


def _numbered(blocks: list[tuple[str, int]]) -> tuple[Block, ...]:
    """Blocks with distinct names: the second translation is "translation2"."""
    seen: Counter[str] = Counter()
    out = []
    for kind, dim in blocks:
        seen[kind] += 1
        out.append(Block(kind if seen[kind] == 1 else f"{kind}{seen[kind]}", dim))
    return tuple(out)
