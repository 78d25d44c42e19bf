"""A directed term for any score. A norm is the same for (i, j) and (j, i)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import Score


class DirectedScore(Score):
    """`score(w_ij) + b_h . w_ij`: linear in w, so it changes sign when i and j change places.

    The paper's score is symmetric in i and j, which the paper names as a limit for directed and
    autoregressive tasks. b starts at zero and has `dim` parameters per head. The parity of the
    polar chart, which has no sign, is left out.

    >>> import lieattn as la
    >>> sum(p.numel() for p in la.scores.make("norm", la.SE2, 4, directed=True).parameters())
    24
    """

    def __init__(self, score: Score) -> None:
        super().__init__(score.group, score.heads, score.chart, score.positive)
        self.score = score
        self.direction = nn.Parameter(torch.zeros(score.heads, score.group.dim))

    @property
    def squares(self) -> bool:  # type: ignore[override]
        return self.score.squares

    def forward(self, coords: Tensor) -> Tensor:
        signed = coords[..., : self.group.dim]
        direction = self.direction.to(coords.dtype)
        term = nn.functional.linear(signed, direction).movedim(-1, -3)
        return self.score(coords) + term
