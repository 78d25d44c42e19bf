"""Aff(n) = GL(n) x R^n for n = 2, 3: principal logarithm and polar chart."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Generator, Tensor

from .._core.small import (
    accurate_adjugate,
    accurate_inverse,
    eye_like,
    homogeneous,
    linear_map,
    widen,
    widened,
)
from . import _expm, _gl2, _gl3, _jacobians, _polar, checks
from . import rotations as _rotations
from ._bases import rotation_generators, scale_generator, shear_generators
from ._semidirect import Semidirect
from .base import PARITY, Block, _Device


class Affine(Semidirect):
    """Aff(n): what n = 2 and n = 3 share."""

    def __init__(self, name: str, n: int) -> None:
        linear = (("rotation", n * (n - 1) // 2), ("scale", 1), ("shear", n * (n + 1) // 2 - 1))
        super().__init__(name, n, tuple(Block(*block) for block in linear))
        parts = (rotation_generators(n), scale_generator(n), shear_generators(n))
        self._linear_basis = torch.cat(parts).flatten(1)  # [n^2, n^2], orthogonal

    # ---- principal chart ---------------------------------------------------------------------

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        X, v = self._to_matrix(x[..., self.n :]), x[..., : self.n]
        if self.n == 2:
            return _gl2.exp(X), _gl2.left_jacobian(X, v)
        return _expm.exp(X, v)

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        finite = (a.isfinite().all(-1) & t[..., None].isfinite().all(-1)).all(-1)
        t = torch.where(finite[..., None], t, 0)
        if self.n == 2:
            X, valid = _gl2.log(a, e)
            u = _gl2.inverse_left_jacobian(X, t)
        else:
            X, u, valid = _gl3.log(a, e, t)
        return torch.cat((u, self._from_matrix(X)), dim=-1), valid & finite

    # ---- polar chart -------------------------------------------------------------------------

    def chart_blocks(self, chart: str = "principal") -> tuple[Block, ...]:
        """Blocks of a chart; the polar one ends with the parity of the determinant."""
        self._require_chart(chart)
        return (*self.blocks, PARITY) if chart == "polar" else self.blocks

    def exp(self, x: Tensor, chart: str = "principal") -> Tensor:
        """Exponential of coordinates `[..., dim]`, or the inverse of the polar chart.

        In the polar chart the coordinates may or may not end with the parity, `[..., dim + 1]` or
        `[..., dim]`: without it the result lies in the identity component, all of which is reached.
        """
        if chart != "polar":
            return super().exp(x, chart)
        dtype = checks.coordinates(self, x, (self.dim, self.dim + 1)).dtype
        return homogeneous(*_polar.exp(self._to_polar(widen(x)))).to(dtype)

    def _left_jacobian(self, x: Tensor, chart: str) -> Tensor:
        if chart != "polar":
            return super()._left_jacobian(x, chart)
        return _jacobians.left_of_chart(self, widen(x), chart).to(x.dtype)

    def _right_jacobian(self, x: Tensor, chart: str) -> Tensor:
        if chart != "polar":
            return super()._right_jacobian(x, chart)
        return _jacobians.right_of_chart(self, widen(x), chart).to(x.dtype)

    def is_global(self, chart: str) -> bool:
        self._require_chart(chart)
        return chart == "polar"

    def _to_polar(self, x: Tensor) -> _polar.Polar:
        """The parts of coordinates `[..., dim + 1]`, or `[..., dim]` for parity 0."""
        n, r = self.n, self.blocks[1].dim
        parity = x[..., self.dim] if x.shape[-1] > self.dim else torch.zeros_like(x[..., 0])
        shear = torch.nn.functional.pad(x[..., n + r + 1 : self.dim], (r + 1, 0))
        return _polar.Polar(
            u=x[..., :n],
            omega=x[..., n : n + r] / sqrt(2),
            s=x[..., n + r] / sqrt(n),
            S=self._to_matrix(shear),
            parity=parity,
        )

    def _from_polar(self, x: _polar.Polar) -> Tensor:
        """Coordinates `[..., dim + 1]`: the inverse of `_to_polar`."""
        shear = self._from_matrix(x.S)[..., self.blocks[1].dim + 1 :]
        scale, parity = x.s[..., None] * sqrt(self.n), x.parity[..., None]
        return torch.cat((x.u, x.omega * sqrt(2), scale, shear, parity), dim=-1)

    # float32 poses pass through float64: singular values a factor 1e4 apart are all there in a
    # pose, but not in the product of two, nor in what the polar factors are made of.

    def _log(self, g: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        if chart == "principal":
            return super()._log(g, chart)
        w, valid = super()._log(widen(g), chart)
        return w.to(g.dtype), valid

    def _log_relative(self, a: Tensor, b: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        det = accurate_adjugate(widen(self.linear(a).detach()))[1]
        regular = det.isfinite() & (det != 0)
        # Singular poses are invalid; the identity in their place has finite gradients.
        a = torch.where(regular[..., None, None], a, eye_like(a))
        w, valid = super()._log_relative(widened(a), widened(b), chart)
        return w.to(torch.promote_types(a.dtype, b.dtype)), valid & regular

    def _log_with_margin(
        self, a: Tensor, b: Tensor, chart: str, margin: float
    ) -> tuple[Tensor, Tensor]:
        if not (margin and self.is_global(chart)):
            return super()._log_with_margin(a, b, chart, margin)
        w, valid = self._log_relative(widened(a), widened(b), chart)
        w = self._from_polar(_polar.beside_cut(self._to_polar(w), margin))
        return w.to(torch.promote_types(a.dtype, b.dtype)), valid

    def _chart_log(self, chart: str, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        if chart == "principal":
            return self._log_parts(a, e, t)
        x, valid = _polar.log(a, e, t)
        return self._from_polar(x), valid

    # ---- linear part -------------------------------------------------------------------------

    def _to_matrix(self, x: Tensor) -> Tensor:
        """n x n matrix of the linear coordinates `[..., n^2]`."""
        flat = linear_map(x, self._linear_basis.to(dtype=x.dtype, device=x.device))
        return flat.unflatten(-1, (self.n, self.n))

    def _from_matrix(self, X: Tensor) -> Tensor:
        basis = self._linear_basis.to(dtype=X.dtype, device=X.device)
        return linear_map(X.flatten(-2), basis.mT)

    def _linear_inverse(self, a: Tensor) -> Tensor:
        return accurate_inverse(widen(a)).to(a.dtype)

    def _linear_margin(self, a: Tensor, chart: str) -> Tensor:
        if chart == "polar":
            return _polar.margin(a)
        return _gl2.margin(a) if self.n == 2 else _gl3.margin(a)

    def chart_margin(self, chart: str = "principal") -> float:
        # The logarithm itself grows like 1/distance towards the cut, its error like the square.
        return 0.05 if chart == "principal" else super().chart_margin(chart)

    def resolution(self, chart: str, dtype: torch.dtype) -> float:
        # Nearer to the cut the rounding of the poses moves w by more than its size.
        return 0.0 if self.is_global(chart) else 1e-5 if dtype == torch.float32 else 1e-12

    def _linear_admits(self, a: Tensor) -> Tensor:
        det = accurate_adjugate(widen(a))[1]
        return super()._linear_admits(a) & det.isfinite() & (det != 0)

    def _clearance(self, a: Tensor, b: Tensor, w: Tensor, chart: str) -> Tensor:
        # From the matrix: next to the cut w is large, and its angle a difference of large numbers.
        linear = self.linear(self.relative(widen(a), widen(b)))
        return _gl2.margin(linear) if self.n == 2 else _gl3.quick_margin(linear)

    def _linear_project(self, a: Tensor) -> Tensor:
        return a

    def _linear_random(
        self,
        *batch: int,
        generator: Generator | None,
        dtype: torch.dtype | None,
        device: _Device,
    ) -> Tensor:
        """Haar rotation times the exponential of a symmetric Gaussian matrix; det > 0."""
        R = _rotations.haar(self.n, *batch, generator=generator, dtype=dtype, device=device)
        r = self.blocks[1].dim
        x = torch.randn(*batch, self.n**2 - r, generator=generator, dtype=dtype, device=device)
        S = self._to_matrix(torch.nn.functional.pad(x, (r, 0)) / 3)
        stretch = _gl2.exp(S) if self.n == 2 else _expm.expm(S)
        return R @ stretch

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        sigma = torch.linalg.svdvals(a)
        ratio = sigma[..., 0] / sigma[..., -1]
        text = (
            "its linear part is singular, condition number {by} (limit {tolerance}). Drop it or "
            "add a small multiple of the identity: no frame is degenerate in a direction."
        )
        return [(ratio, 0.1 / torch.finfo(a.dtype).eps, text)]
