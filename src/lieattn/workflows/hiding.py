"""Which tokens are hidden: one by one, or in a row as where tracking is lost."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ..data import hide
from .settings import TrainSettings

BY_CHANCE = 3  # that may be next to each other if they are hidden one by one


def hide_some(mask: Tensor, share: float, gaps: str, generator: Generator) -> Tensor:
    """Tokens to hide of sets `mask [B, N]`, of each about `share` and at least one.

    Args:
        gaps: "tokens", "runs", or "mixed", which tosses a coin for each set; "any" is that with
            runs of any length up to half of the set, short and long ones as often.

    >>> mask = torch.ones(1, 10, dtype=torch.bool)
    >>> hide_some(mask, 0.3, "runs", Generator().manual_seed(0)).int()
    tensor([[0, 0, 0, 0, 0, 0, 1, 1, 1, 0]], dtype=torch.int32)
    """
    # All are drawn whatever is asked for, so that one choice does not shift the others.
    one_by_one = hide(mask, share, generator=generator)[1]
    in_a_row = _run(mask, one_by_one.sum(-1), generator)
    coin = torch.rand(mask.shape[0], generator=generator) < 0.5
    if gaps == "tokens":
        return one_by_one
    if gaps == "runs":
        return in_a_row
    if gaps == "any":
        in_a_row = _run(mask, _lengths(mask, generator), generator)
    return torch.where(coin[:, None], one_by_one, in_a_row)


def longest_hidden(settings: TrainSettings, size: int) -> int:
    """Poses in a row that are hidden, at most, of sets of a size.

    >>> longest_hidden(TrainSettings(hide=0.15, gaps="mixed"), 32)
    5
    >>> longest_hidden(TrainSettings(gaps="any"), 32)
    16
    """
    if settings.gaps == "any":
        return max(size // 2, 1)
    count = max(round(size * settings.hide), 1)
    return min(count, BY_CHANCE) if settings.gaps == "tokens" else count


def _lengths(mask: Tensor, generator: Generator) -> Tensor:
    """Numbers from 1 to half of the tokens there, `[B]`, with logarithms that are uniform."""
    most = (mask.sum(-1) // 2).double()
    draw = torch.rand(mask.shape[0], generator=generator, dtype=torch.float64)
    return (most + 1).pow(draw).floor().minimum(most).long()


def _run(mask: Tensor, count: Tensor, generator: Generator) -> Tensor:
    """The same numbers of tokens, next to each other among those that are there."""
    there = mask.sum(-1)
    draw = torch.rand(mask.shape[0], generator=generator, dtype=torch.float64)
    start = (draw * (there - count + 1)).long()
    rank = mask.cumsum(-1) - 1  # among those that are there
    return mask & (rank >= start[:, None]) & (rank < (start + count)[:, None])
