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


SL3 = torch.stack(
    [matrix(3, (i, j, 1.0)) for i in range(3) for j in range(3) if i != j]
    + [matrix(3, (0, 0, 1.0), (1, 1, -1.0)), matrix(3, (1, 1, 1.0), (2, 2, -1.0))]
)
SE2_3 = torch.stack(  # extended poses: rotation, velocity, position
    [skew(5, 2, 1), skew(5, 0, 2), skew(5, 1, 0)]
    + [matrix(5, (i, j, 1.0)) for j in (3, 4) for i in range(3)]
)
HEISENBERG = torch.stack([matrix(3, (i, j, 1.0)) for i, j in ((0, 1), (1, 2), (0, 2))])
LORENTZ = torch.stack(
    [matrix(4, (0, i, 1.0), (i, 0, 1.0)) for i in (1, 2, 3)]
    + [skew(4, 3, 2), skew(4, 1, 3), skew(4, 2, 1)]
)


def scrambled(name: str) -> Tensor:
    """The algebra of a registered group in a random basis: no order, no norms, no blocks."""
    basis = lieattn.get_group(name).basis(dtype=torch.float64)
    mix = torch.randn(len(basis), len(basis), generator=torch.Generator().manual_seed(7)).double()
    return torch.einsum("ij,jab->iab", mix, basis)


GENERIC = {
    "SL3": SL3,
    "SE_2(3)": SE2_3,
    "Heisenberg": HEISENBERG,
    "SO(1,3)": LORENTZ,
    **{f"generic {name}": scrambled(name) for name in ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")},
}
