"""A full metric on the algebra, learned through its Cholesky factor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import Score


class FullScore(Score):
    r"""$s_{ij} = -|L^\top w_{ij}|^2 / \tau$ with L lower triangular: couples the blocks.

    The diagonal of L is $\sqrt\lambda$, which starts as in the block norm; the rest starts at
    zero: `C (C + 1) / 2 + 1` parameters per head.

    >>> import lieattn as la
    >>> FullScore(la.SE2, heads=4).cholesky.shape
    torch.Size([4, 3, 3])
    """

    squares = True

    def make_parameters(self) -> None:
        size = self.coordinates
        self.raw_lambda = nn.Parameter(torch.zeros(self.heads, size))
        self.raw_tau = nn.Parameter(torch.zeros(self.heads))
        self.below = nn.Parameter(torch.zeros(self.heads, size * (size - 1) // 2))

    @property
    def cholesky(self) -> Tensor:
        """L, `[H, C, C]`: the metric of head h is `L L^T / tau`."""
        size = self.coordinates
        # Where in `below` an entry of L is found; the last place, a zero, is for the rest.
        index = torch.full((size, size), self.below.shape[-1], device=self.below.device)
        rows, columns = torch.tril_indices(size, size, -1, device=self.below.device)
        index[rows, columns] = torch.arange(self.below.shape[-1], device=self.below.device)
        below = nn.functional.pad(self.below, (0, 1))[:, index]
        return below + torch.diag_embed(self.keep_positive(self.raw_lambda).sqrt())

    def forward(self, coords: Tensor) -> Tensor:
        factor = self.cholesky / self.keep_positive(self.raw_tau).sqrt()[:, None, None]
        # [..., Nq, Nk, C] times [H, C, C] is [..., Nq, Nk, H, C].
        factor = factor.to(coords.dtype)
        projected = (coords @ factor.transpose(0, 1).flatten(1)).unflatten(-1, factor.shape[:2])
        return -projected.square().sum(-1).movedim(-1, -3)
