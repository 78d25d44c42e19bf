"""Elements, exponentials and Jacobians at 50 digits, and the poses that they are compared at."""

from __future__ import annotations

import mpmath
import torch
from torch import Tensor

from lieattn import Group
from lieattn.testing import sample_coordinates

DIGITS = 50
STEP = mpmath.mpf(10) ** -20


def coordinates(group: Group) -> dict[str, Tensor]:
    """Zero, 1e-8 from it, generic, and as near a half turn as 1e-6, `[dim]` each."""
    generator = torch.Generator().manual_seed(11)
    x = sample_coordinates(group, generator=generator, dtype=torch.float64)
    cases = {"zero": torch.zeros_like(x), "near": 1e-8 * x / x.norm(), "generic": x}
    turned = group.to_physical(x)
    sizes = [block.dim for block in group.blocks]
    for block, part in zip(group.blocks, turned.split(sizes), strict=True):
        if block.kind == "rotation":
            part *= (torch.pi - 1e-6) / part.norm()
        elif block.kind in ("scale", "shear", "other"):
            part *= 0.1
    if group.coordinates_of("rotation"):
        cases["half turn"] = group.from_physical(turned)
    return cases


def exact(x: Tensor) -> mpmath.matrix:
    return mpmath.matrix(x.tolist())


def hat(group: Group, x: mpmath.matrix) -> mpmath.matrix:
    m = group.matrix_size
    total = mpmath.zeros(m, m)
    for i, generator in enumerate(group.basis(dtype=torch.float64)):
        total += x[i] * exact(generator)
    return total


def exp(group: Group, x: mpmath.matrix) -> mpmath.matrix:
    return mpmath.expm(hat(group, x), method="taylor")


def vee(group: Group, X: mpmath.matrix) -> list[mpmath.mpf]:
    rows = group.basis(dtype=torch.float64)
    norms = [mpmath.fsum(v**2 for v in exact(row)) for row in rows]
    return [
        mpmath.fsum(a * b for a, b in zip(exact(row), X, strict=True)) / norm
        for row, norm in zip(rows, norms, strict=True)
    ]


def left_jacobian(group: Group, x: Tensor) -> Tensor:
    """Central differences of step 1e-20: exp(x + dx) exp(x)^-1 is I + hat(J dx)."""
    with mpmath.workdps(DIGITS):
        columns = []
        centre = exact(x)
        back = exp(group, -centre)
        for i in range(group.dim):
            ahead, behind = centre.copy(), centre.copy()
            ahead[i] += STEP
            behind[i] -= STEP
            moved = (exp(group, ahead) - exp(group, behind)) / (2 * STEP)
            columns.append([float(v) for v in vee(group, moved * back)])
    return torch.tensor(columns, dtype=torch.float64).mT


def rounded(X: mpmath.matrix) -> Tensor:
    return torch.tensor([[float(v) for v in row] for row in X.tolist()], dtype=torch.float64)
