"""The charts of Aff(n): the principal logarithm, and polar coordinates of every element."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.small import homogeneous, widen, widened
from . import _jacobians, _polar
from ._blocks import PARITY
from ._charts import Chart

if TYPE_CHECKING:
    from ._affine import Affine


class Logarithm(Chart):
    """The principal logarithm of Aff(n)."""

    # The logarithm itself grows like 1/distance towards the cut, its error like the square.
    margin = 0.05

    def resolution(self, dtype: torch.dtype) -> float:
        # Nearer to the cut the rounding of the poses moves w by more than its size.
        return 1e-5 if dtype == torch.float32 else 1e-12


class Polar(Chart):
    """Polar coordinates of Aff(n), see `_polar`; they end with the parity of the determinant."""

    group: Affine
    is_global = True

    def __init__(self, group: Affine, name: str) -> None:
        super().__init__(group, name)
        self.blocks = (*group.blocks, PARITY)

    # float32 poses pass through float64: singular values a factor 1e4 apart are all there in a
    # pose, but not in the product of two, nor in what the polar factors are made of.

    def exp(self, x: Tensor) -> Tensor:
        return homogeneous(*_polar.exp(self._to_polar(widen(x)))).to(x.dtype)

    def log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        w, valid = self._log_parts(*self.group._parts(widen(g)))
        return w.to(g.dtype), valid

    def relation(self, a: Tensor, b: Tensor, margin: float = 0.0) -> tuple[Tensor, Tensor]:
        if not margin:
            return self.group._relative_by(self._log_parts, a, b)
        w, valid = self.group._relative_by(self._log_parts, widened(a), widened(b))
        w = self._from_polar(_polar.beside_cut(self._to_polar(w), margin))
        return w.to(torch.promote_types(a.dtype, b.dtype)), valid

    def clearance(self, g: Tensor) -> Tensor:
        return _polar.margin(self.group.linear(g))

    def left_jacobian(self, x: Tensor) -> Tensor:
        return _jacobians.left_of_chart(self, widen(x)).to(x.dtype)

    def right_jacobian(self, x: Tensor) -> Tensor:
        return _jacobians.right_of_chart(self, widen(x)).to(x.dtype)

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        x, valid = _polar.log(a, e, t)
        return self._from_polar(x), valid

    def _to_polar(self, x: Tensor) -> _polar.Polar:
        """The parts of coordinates `[..., dim]`, or of those of the algebra for parity 0."""
        n, r, dim = self.group.n, self.group.blocks[1].dim, self.group.dim
        parity = x[..., dim] if x.shape[-1] > dim else torch.zeros_like(x[..., 0])
        shear = torch.nn.functional.pad(x[..., n + r + 1 : dim], (r + 1, 0))
        return _polar.Polar(
            u=x[..., :n],
            omega=x[..., n : n + r] / sqrt(2),
            s=x[..., n + r] / sqrt(n),
            S=self.group._to_matrix(shear),
            parity=parity,
        )

    def _from_polar(self, x: _polar.Polar) -> Tensor:
        """Coordinates `[..., dim]`: the inverse of `_to_polar`."""
        shear = self.group._from_matrix(x.S)[..., self.group.blocks[1].dim + 1 :]
        scale, parity = x.s[..., None] * sqrt(self.group.n), x.parity[..., None]
        return torch.cat((x.u, x.omega * sqrt(2), scale, shear, parity), dim=-1)
