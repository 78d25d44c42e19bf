"""A group without rotations, written as CONTRIBUTING says: dilations."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from lieattn.groups import Block
from lieattn.groups._semidirect import Semidirect
from lieattn.groups.base import Draw


class Dilations(Semidirect):
    """R+ x R^n: dilations and translations of space."""

    def __init__(self, name: str, n: int) -> None:
        super().__init__(name, n, Block("scale", 1))

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, sigma = self.n, x[..., -1:] / sqrt(self.n)
        return _scalar(sigma.exp(), n), _growth(sigma) * x[..., :n]

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        excess = e.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
        regular = (excess > -1) & excess.isfinite()
        sigma = torch.where(regular, excess, 0).log1p()
        u = torch.where(regular, t, 0) / _growth(sigma)
        return torch.cat((u, sqrt(self.n) * sigma), dim=-1), regular[..., 0]

    def _linear_inverse(self, a: Tensor) -> Tensor:
        return _scalar(1 / a[..., 0, :1], self.n)

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return torch.where(a[..., 0, 0] > 0, torch.pi, 0.0).to(a)

    def _linear_project(self, a: Tensor) -> Tensor:
        return _scalar(a.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True), self.n)

    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return _scalar((draw.normal(*batch, 1) / 2).exp(), self.n)

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        off = (a - self._linear_project(a)).abs().amax((-2, -1)) / a.abs().amax((-2, -1))
        text = "its linear part is no positive multiple of I, by {by}. {group}.project(g) mends it."
        return [
            (torch.where(a[..., 0, 0] > 0, 0.0, 1.0), 0.5, text),
            (off, 8 * torch.finfo(a.dtype).eps, text),
        ]


def _scalar(x: Tensor, n: int) -> Tensor:
    """x I of `x [..., 1]`, `[..., n, n]`."""
    return x[..., None] * torch.eye(n, dtype=x.dtype, device=x.device)


def _growth(sigma: Tensor) -> Tensor:
    """(e^s - 1) / s, 1 at 0."""
    small = sigma.abs() < 1e-4
    safe = torch.where(small, 1, sigma)
    return torch.where(small, 1 + sigma / 2 + sigma.square() / 6, safe.expm1() / safe)
