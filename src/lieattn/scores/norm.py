"""The paper's score: the block-weighted algebra norm, one weight per block and a temperature."""

from __future__ import annotations

from .base import WeightedNorm


class NormScore(WeightedNorm):
    r"""$s_{ij} = -\|w_{ij}\|_\lambda^2 / \tau$, Sections 2.6 and 4.3: `H (K + 1)` parameters.

    `lambda` and `tau` are softplus + 1e-3 of parameters started at zero, so that the norm starts
    isotropic with `lambda / tau = 1`. `positive="log"` uses the exponential instead, whose weights
    change by a factor where those of softplus change by a summand.

    >>> import lieattn as la
    >>> NormScore(la.SE2, heads=4).weights.shape
    torch.Size([4, 2])
    """

    def partition(self) -> list[int]:
        return [block.dim for block in self.group.chart_blocks(self.chart)]
