"""A learned kernel on the same invariant: the score of the paper's model C."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._core.small import widen
from .._core.tensors import readable
from .base import Score

HIDDEN = 32  # Section 5: one hidden layer of 32 units
LARGE = 1e5  # of coordinates


class MLPScore(Score):
    """`psi_h(w_ij)`, a ReLU network with one hidden layer for each head.

    `32 (C + 2) + 1` parameters per head. It has no lambda and tau; `positive` is not used.

    >>> import lieattn as la
    >>> sum(p.numel() for p in MLPScore(la.SE2, heads=1).parameters())
    161
    """

    def make_parameters(self) -> None:
        self.first = nn.Linear(self.coordinates, self.heads * HIDDEN)
        bound = HIDDEN**-0.5  # nn.Linear's own, of a layer with 32 inputs
        self.second = nn.Parameter(torch.empty(self.heads, HIDDEN).uniform_(-bound, bound))
        self.second_bias = nn.Parameter(torch.empty(self.heads).uniform_(-bound, bound))

    def forward(self, coords: Tensor) -> Tensor:
        # Beyond it, terms cancel to a sum that is below their rounding in float32.
        if readable(coords) and coords.numel() and coords.detach().abs().amax() > LARGE:
            coords = widen(coords)
        dtype = coords.dtype
        weight, bias = self.first.weight.to(dtype), self.first.bias.to(dtype)
        hidden = nn.functional.linear(coords, weight, bias)
        hidden = hidden.relu().unflatten(-1, (self.heads, HIDDEN))
        logits = (hidden * self.second.to(dtype)).sum(-1) + self.second_bias.to(dtype)
        return logits.movedim(-1, -3)
