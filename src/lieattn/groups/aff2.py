"""Aff(2), affine frames of the plane: the running example of Section 2 of the paper."""

from __future__ import annotations

from ._affine import Affine


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


Aff2 = _Aff2("Aff2", 2)
