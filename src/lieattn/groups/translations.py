"""T(2) and T(3), translations of the plane and of space."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import eye_like, homogeneous
from .._core.tensors import vectors
from . import checks
from ._semidirect import Semidirect
from .base import Draw


class Translations(Semidirect):
    """Translations `[..., n+1, n+1]`; n coordinates, the translation itself.

    The chart has no cut: every translation has its logarithm, and layers treat sets of points as
    sets of poses.

    >>> from lieattn import T3
    >>> T3.log(T3.from_vector(torch.tensor([1.0, 2.0, 3.0])))
    tensor([1., 2., 3.])
    """

    def from_vector(self, t: Tensor) -> Tensor:
        """Poses `[..., n+1, n+1]` from translations or points `[..., n]`."""
        vectors(t, self.n, f"{self} vectors")
        return homogeneous(torch.eye(self.n, dtype=t.dtype, device=t.device), t)

    def to_vector(self, g: Tensor) -> Tensor:
        """Translations `[..., n]`."""
        return self.translation(checks.poses(self, g))

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.eye(self.n, dtype=x.dtype, device=x.device), x

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        valid = t.isfinite().all(-1)
        return torch.where(valid[..., None], t, 0), valid

    def _linear_inverse(self, a: Tensor) -> Tensor:
        return a

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return torch.full_like(a[..., 0, 0], torch.pi)

    def _linear_project(self, a: Tensor) -> Tensor:
        return eye_like(a).expand_as(a)

    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return torch.eye(self.n, dtype=draw.dtype, device=draw.device)

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        off = (a - eye_like(a)).abs().amax((-2, -1))
        text = "its linear part misses I by {by}. {group}.project(g) resets it."
        return [(off, 0.0, text)]

    def _shape_hint(self, g: Tensor) -> str:
        if g.shape[-1:] == (self.n,) and g.shape[-2:] != (self.n, self.n):
            return f"For points [..., {self.n}] use {self.name}.from_vector(points)."
        return super()._shape_hint(g)


T2 = Translations("T2", 2)
T3 = Translations("T3", 3)
