"""Aff(3), affine frames of space (Section 3.5 of the paper)."""

from __future__ import annotations

from torch import Tensor

from . import _expm, _gl3
from ._affine import Affine, Parts


class _Aff3(Affine):
    r"""Affine maps `[..., 4, 4]`; coordinates translation (3), rotation (3), scale (1), shear (5).

    Domain of the principal chart: no eigenvalue of A on the closed negative axis.
    `chart="polar"` is defined for every invertible A.

    >>> import torch
    >>> from lieattn import Aff3
    >>> g = Aff3.from_parts(torch.diag(torch.tensor([2.0, 2.0, 0.25])), torch.zeros(3))
    >>> Aff3.block_sq_norms(Aff3.log(g)).round(decimals=4)
    tensor([0.0000, 0.0000, 0.0000, 2.8827])
    """

    def _matrix_exp(self, X: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return _expm.exp(X, v)

    def _matrix_log(self, a: Tensor, e: Tensor, t: Tensor) -> Parts:
        return _gl3.log(a, e, t)

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return _gl3.margin(a)

    def _quick_clearance(self, a: Tensor) -> Tensor:
        return _gl3.quick_margin(a)


Aff3 = _Aff3("Aff3", 3)
