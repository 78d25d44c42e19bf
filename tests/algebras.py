"""Bases of matrix Lie algebras that the library has no file for."""

import torch
from torch import Tensor

import lieattn


def matrix(size: int, *entries: tuple[int, int, float]) -> Tensor:
    out = torch.zeros(size, size, dtype=torch.float64)
    for i, j, value in entries:
        out[i, j] = value
    return out


def skew(size: int, i: int, j: int) -> Tensor:
    return matrix(size, (i, j, 1.0), (j, i, -1.0))


def translations(n: int) -> Tensor:
    """T(n) as affine maps."""
    return torch.stack([matrix(n + 1, (i, n, 1.0)) for i in range(n)])


def dilations(n: int) -> Tensor:
    """Dilations and translations as affine maps."""
    return torch.cat((translations(n), matrix(n + 1, *((i, i, 1.0) for i in range(n)))[None]))


def sl(n: int) -> Tensor:
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    diagonal = [matrix(n, (i, i, 1.0), (i + 1, i + 1, -1.0)) for i in range(n - 1)]
    return torch.stack([matrix(n, (i, j, 1.0)) for i, j in pairs] + diagonal)


def beside(*bases: Tensor) -> Tensor:
    """The algebra of a product of groups, as matrices with a block for each."""
    sizes = [basis.shape[-1] for basis in bases]
    zeros = [torch.zeros(size, size, dtype=torch.float64) for size in sizes]
    return torch.stack(
        [
            torch.block_diag(*zeros[:k], x, *zeros[k + 1 :])
            for k, basis in enumerate(bases)
            for x in basis
        ]
    )


SL3 = sl(3)
SE2_3 = torch.stack(  # extended poses: rotation, velocity, position
    [skew(5, 2, 1), skew(5, 0, 2), skew(5, 1, 0)]
    + [matrix(5, (i, j, 1.0)) for j in (3, 4) for i in range(3)]
)
HEISENBERG = torch.stack([matrix(3, (i, j, 1.0)) for i, j in ((0, 1), (1, 2), (0, 2))])
LORENTZ = torch.stack(
    [matrix(4, (0, i, 1.0), (i, 0, 1.0)) for i in (1, 2, 3)]
    + [skew(4, 3, 2), skew(4, 1, 3), skew(4, 2, 1)]
)


def mixed(basis: Tensor, seed: int, norms: float = 1e6) -> Tensor:
    """Another basis of the same algebra: no order, no blocks, norms from 1 / norms to norms."""
    generator = torch.Generator().manual_seed(seed)
    d = len(basis)
    mix = torch.randn(d, d, generator=generator).double()
    sizes = norms ** (2 * torch.rand(d, generator=generator).double() - 1)
    return sizes[:, None, None] * torch.einsum("ij,jab->iab", mix, basis)


def scrambled(name: str) -> Tensor:
    """The algebra of a registered group in a random basis: no order, no norms, no blocks."""
    return mixed(lieattn.get_group(name).basis(dtype=torch.float64), 7, norms=1.0)


GENERIC = {
    "SL3": SL3,
    "SE_2(3)": SE2_3,
    "Heisenberg": HEISENBERG,
    "SO(1,3)": LORENTZ,
    **{f"generic {name}": scrambled(name) for name in lieattn.available_groups()},
}
