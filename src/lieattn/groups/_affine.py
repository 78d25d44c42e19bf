"""Aff(n) = GL(n) x R^n for n = 2, 3."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from .._core.small import accurate_adjugate, accurate_inverse, eye_like, linear_map, widen, widened
from . import rotations as _rotations
from ._affine_charts import Logarithm, Polar
from ._bases import rotation_generators, scale_generator, shear_generators
from ._blocks import Block
from ._charts import Chart
from ._semidirect import Semidirect
from .base import Draw

Parts = tuple[Tensor, Tensor, Tensor]


class Affine(Semidirect):
    """Aff(n): what n = 2 and n = 3 share. A subclass has the functions of n x n matrices."""

    def __init__(self, name: str, n: int) -> None:
        linear = {"rotation": n * (n - 1) // 2, "scale": 1, "shear": n * (n + 1) // 2 - 1}
        super().__init__(name, n, *(Block(*block) for block in linear.items()))
        parts = (rotation_generators(n), scale_generator(n), shear_generators(n))
        self._linear_basis = torch.cat(parts).flatten(1)  # [n^2, n^2], orthogonal

    def _make_chart(self, name: str) -> Chart:
        return Polar(self, name) if name == "polar" else Logarithm(self, name)

    # ---- functions of matrices ---------------------------------------------------------------

    @abstractmethod
    def _matrix_exp(self, X: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """e^X and V(X) v, V(X) = (e^X - I) / X."""

    @abstractmethod
    def _matrix_log(self, a: Tensor, e: Tensor, t: Tensor) -> Parts:
        """Principal logarithm X of a = I + e, V(X)^-1 t, and validity; finite where invalid."""

    def _quick_clearance(self, a: Tensor) -> Tensor:
        """`_linear_clearance`; a subclass may have a cheaper way."""
        return self._linear_clearance(a)

    # ---- logarithm ---------------------------------------------------------------------------

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._matrix_exp(self._to_matrix(x[..., self.n :]), x[..., : self.n])

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        finite = (a.isfinite().all(-1) & t[..., None].isfinite().all(-1)).all(-1)
        X, u, valid = self._matrix_log(a, e, torch.where(finite[..., None], t, 0))
        return torch.cat((u, self._from_matrix(X)), dim=-1), valid & finite

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self._relative_by(self._log_parts, a, b)

    def _relative_by(
        self, log: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]], a: Tensor, b: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of a^-1 b by the logarithm of a chart, in float64.

        Float32 poses hold singular values a factor 1e4 apart; products of two of them do not.
        """
        det = accurate_adjugate(widen(self.linear(a).detach()))[1]
        regular = det.isfinite() & (det != 0)
        # Singular poses are invalid; the identity in their place has finite gradients.
        a = torch.where(regular[..., None, None], a, eye_like(a))
        w, valid = log(*self._relative_parts(widened(a), widened(b)))
        return w.to(torch.promote_types(a.dtype, b.dtype)), valid & regular

    def _pair_clearance(self, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        # From the matrix: next to the cut w is large, and its angle a difference of large numbers.
        return self._quick_clearance(self.linear(self.relative(widen(a), widen(b))))

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

    def _linear_admits(self, a: Tensor) -> Tensor:
        det = accurate_adjugate(widen(a))[1]
        return super()._linear_admits(a) & det.isfinite() & (det != 0)

    def _linear_project(self, a: Tensor) -> Tensor:
        return a

    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        """Haar rotation times the exponential of a symmetric Gaussian matrix; det > 0."""
        R = _rotations.haar(self.n, batch, draw)
        r = self.blocks[1].dim
        x = draw.normal(*batch, self.n**2 - r)
        S = self._to_matrix(torch.nn.functional.pad(x, (r, 0)) / 3)
        return R @ self._matrix_exp(S, S[..., 0])[0]

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        sigma = torch.linalg.svdvals(a)
        ratio = sigma[..., 0] / sigma[..., -1]
        text = (
            "its linear part is singular, condition number {by} (limit {tolerance}). Drop it or "
            "add a small multiple of the identity: no frame is degenerate in a direction."
        )
        return [(ratio, 0.1 / torch.finfo(a.dtype).eps, text)]
