"""Frobenius-orthonormal generators of the standard blocks, Section 2.2 of the paper."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from ._blocks import Block


def rotation_generators(n: int) -> Tensor:
    """so(n) for n = 2, 3: J / sqrt 2, or L_x, L_y, L_z over sqrt 2."""
    planes = [(1, 0)] if n == 2 else [(2, 1), (0, 2), (1, 0)]
    out = torch.zeros(len(planes), n, n, dtype=torch.float64)
    for k, (i, j) in enumerate(planes):
        out[k, i, j], out[k, j, i] = 1 / sqrt(2), -1 / sqrt(2)
    return out


def scale_generator(n: int) -> Tensor:
    return torch.eye(n, dtype=torch.float64)[None] / sqrt(n)


def shear_generators(n: int) -> Tensor:
    """Traceless symmetric matrices: diagonal ones first, then (E_ij + E_ji)/sqrt 2, i < j."""
    diagonals = [(1.0, -1.0)] if n == 2 else [(1.0, -1.0, 0.0), (1.0, 1.0, -2.0)]
    out = [torch.diag(torch.tensor(d, dtype=torch.float64)) for d in diagonals]
    for i in range(n):
        for j in range(i + 1, n):
            E = torch.zeros(n, n, dtype=torch.float64)
            E[i, j] = E[j, i] = 1
            out.append(E)
    return torch.stack([E / torch.linalg.norm(E) for E in out])


def affine_generators(n: int, blocks: tuple[Block, ...]) -> Tensor:
    """Generators of a subalgebra of aff(n) as (n+1) x (n+1) matrices, in the order of blocks."""
    linear = {"rotation": rotation_generators, "scale": scale_generator, "shear": shear_generators}
    parts, axis = [], 0
    for block in blocks:
        out = torch.zeros(block.dim, n + 1, n + 1, dtype=torch.float64)
        if block.kind == "translation":
            out[:, axis : axis + block.dim, n] = torch.eye(block.dim, dtype=torch.float64)
            axis += block.dim
        else:
            out[:, :n, :n] = linear[block.kind](n)
        parts.append(out)
    return torch.cat(parts)
