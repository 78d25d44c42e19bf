"""What a score is: from the invariants of pairs to attention logits, one set a head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core.text import unknown
from ..groups import Group

FLOOR = 1e-3  # Section 4.3: keeps lambda and tau away from zero
PARAMETERISATIONS = ("softplus", "log")


class Score(nn.Module):
    """Logits `[..., H, Nq, Nk]` of pairs with coordinates `[..., Nq, Nk, C]`, C of the chart.

    A score sees invariants only, so whatever it computes is invariant. A new score is one file
    with a subclass, which implements `forward` and makes its parameters in `make_parameters`, and
    one line in `SCORES`.
    """

    squares = False  # True where coordinates are squared: the squares may not fit float32

    def __init__(
        self,
        group: Group,
        heads: int,
        chart: str = "principal",
        positive: str = "softplus",
    ) -> None:
        super().__init__()
        if positive not in PARAMETERISATIONS:
            raise ValueError(unknown("parameterisation", positive, PARAMETERISATIONS))
        self.group, self.heads, self.chart, self.positive = group, heads, chart, positive
        self.coordinates = group.chart(chart).dim
        self.make_parameters()

    def make_parameters(self) -> None:
        """Called once, when group, heads, chart and the number of coordinates are known."""

    @abstractmethod
    def forward(self, coords: Tensor) -> Tensor: ...

    def block_weights(self) -> Tensor | None:
        """`[H, K]` if the score is a norm with one weight per block, as every backend supports."""
        return None

    def keep_positive(self, raw: Tensor) -> Tensor:
        """A positive number from an unconstrained one: softplus + 1e-3, or the exponential."""
        if self.positive == "log":
            return raw.exp()
        return nn.functional.softplus(raw) + FLOOR

    def extra_repr(self) -> str:
        return f"{self.group}, heads={self.heads}, chart={self.chart!r}"


class WeightedNorm(Score):
    """`-sum_k lambda_k |w_k|^2 / tau` over parts `w_k` of the coordinates.

    A subclass implements `partition`, the number of coordinates of each part.
    """

    squares = True

    def make_parameters(self) -> None:
        self.parts = tuple(self.partition())
        self.raw_lambda = nn.Parameter(torch.zeros(self.heads, len(self.parts)))
        self.raw_tau = nn.Parameter(torch.zeros(self.heads))

    @abstractmethod
    def partition(self) -> Sequence[int]:
        """Sizes of the parts; they add up to the coordinates of the chart."""

    @property
    def weights(self) -> Tensor:
        """`lambda / tau`, `[H, parts]`: the score depends on nothing else."""
        return self.keep_positive(self.raw_lambda) / self.keep_positive(self.raw_tau)[:, None]

    def block_weights(self) -> Tensor | None:
        if type(self).forward is not WeightedNorm.forward or self._is_watched():
            return None  # a forward of its own, or a hook, may use the weights in another way
        blocks = [block.dim for block in self.group.chart_blocks(self.chart)]
        if len(self.parts) == 1:
            return self.weights.expand(-1, len(blocks))
        return self.weights if list(self.parts) == blocks else None

    def forward(self, coords: Tensor) -> Tensor:
        return weighted_norm_logits(coords, self.weights, self.parts)

    def _is_watched(self) -> bool:
        """Whether this module has hooks or a forward of its own, which have to be called."""
        hooks = self._forward_hooks, self._forward_pre_hooks
        backward = self._backward_hooks, self._backward_pre_hooks
        return "forward" in vars(self) or any(map(bool, (*hooks, *backward)))


class BlockNorm:
    """The score of given weights `[H, parts]`."""

    squares = True

    def __init__(self, weights: Tensor, parts: Sequence[int]) -> None:
        self.weights, self.parts = weights, parts

    def __call__(self, coords: Tensor) -> Tensor:
        return weighted_norm_logits(coords, self.weights, self.parts)


def weighted_norm_logits(coords: Tensor, weights: Tensor, parts: Sequence[int]) -> Tensor:
    """`-sum_k weights[h, k] |w_k|^2`, `[..., H, Nq, Nk]`, for coordinates `[..., Nq, Nk, C]`.

    A sum of products, not a matrix product, which may run in TF32 on a GPU.
    """
    weights = weights.to(coords.dtype)[..., None, None]
    logits = torch.zeros((), dtype=coords.dtype, device=coords.device)
    for k, part in enumerate(coords.split(list(parts), dim=-1)):
        logits = logits - weights[:, k] * part.square().sum(-1).unsqueeze(-3)
    return logits
