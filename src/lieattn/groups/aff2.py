"""Aff(2), affine frames of the plane: the running example of Section 2 of the paper."""

from __future__ import annotations

from torch import Tensor

from . import _gl2
from ._affine import Affine, Parts


class _Aff2(Affine):
    r"""Affine maps `[..., 3, 3]`; coordinates translation (2), rotation (1), scale (1), shear (2).

    $\log A = \tfrac12 \log\det A\; I + f N$ for $A = m I + N$, N traceless: one scalar function f
    and no case distinction on eigenvalues. Domain: no eigenvalue of A on the closed negative axis.
    `chart="polar"` is defined for every invertible A.

    >>> import torch
    >>> from lieattn import Aff2
    >>> flip = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    >>> Aff2.in_chart(flip)
    tensor(False)
    >>> Aff2.log(flip, chart="polar")  # a parity, nothing else
    tensor([0., 0., 0., 0., 0., 0., 1.])
    """

    def _matrix_exp(self, X: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return _gl2.exp(X), _gl2.left_jacobian(X, v)

    def _matrix_log(self, a: Tensor, e: Tensor, t: Tensor) -> Parts:
        X, valid = _gl2.log(a, e)
        return X, _gl2.inverse_left_jacobian(X, t), valid

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return _gl2.margin(a)


Aff2 = _Aff2("Aff2", 2)
