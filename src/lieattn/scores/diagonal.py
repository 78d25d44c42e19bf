"""One weight per coordinate: the axes of a block may have different weights."""

from __future__ import annotations

from .base import WeightedNorm


class DiagonalScore(WeightedNorm):
    """`-sum_c lambda_c w_c^2 / tau`: `C + 1` parameters per head.

    The axes are those of each token's own frame, so it is as invariant as the block norm.

    >>> import lieattn as la
    >>> DiagonalScore(la.SE3, heads=4).weights.shape
    torch.Size([4, 6])
    """

    def partition(self) -> list[int]:
        return [1] * self.coordinates
