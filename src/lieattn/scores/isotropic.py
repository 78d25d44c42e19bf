"""One weight for all coordinates: the baseline for block weights."""

from __future__ import annotations

from .base import WeightedNorm


class IsotropicScore(WeightedNorm):
    """`-lambda |w|^2 / tau` in the Frobenius norm: two parameters per head.

    >>> import lieattn as la
    >>> IsotropicScore(la.Aff2, heads=4).weights.shape
    torch.Size([4, 1])
    """

    def partition(self) -> list[int]:
        return [self.coordinates]
