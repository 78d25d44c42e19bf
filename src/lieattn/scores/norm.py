"""The paper's score: the block-weighted algebra norm, one weight a block and a temperature."""

from __future__ import annotations

from ..groups import Group
from .base import WeightedNorm


class NormScore(WeightedNorm):
    r"""$s_{ij} = -\|w_{ij}\|_\lambda^2 / \tau$, Sections 2.6 and 4.3: `H (K + 1)` parameters.

    `lambda` and `tau` are softplus + 1e-3 of parameters started at zero, so that the norm starts
    isotropic with `lambda / tau = 1`. `positive="log"` uses the exponential instead, whose weights
    move by a factor where softplus moves by a summand.

    >>> import lieattn as la
    >>> NormScore(la.SE2, heads=4).weights.shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        group: Group,
        heads: int,
        chart: str = "principal",
        positive: str = "softplus",
    ) -> None:
        blocks = group.chart_blocks(chart)
        super().__init__(group, heads, chart, positive, [block.dim for block in blocks])
