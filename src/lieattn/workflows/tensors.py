"""Windows as one tensor, in the unit of a model, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .. import data
from .._core.random import generator
from .hiding import hide_some
from .kinds import kind_features


class Stack(NamedTuple):
    """Windows padded to one size: poses `[W, N, m, m]` in float32, mask `[W, N]`.

    And features of tokens, `[W, N, F]`, where a model takes any.
    """

    poses: Tensor
    mask: Tensor
    features: Tensor | None = None

    def rows(self, index: Tensor) -> Stack:
        features = None if self.features is None else self.features[index]
        return Stack(self.poses[index], self.mask[index], features)

    def trimmed(self, hidden: Tensor) -> tuple[Stack, Tensor]:
        """Without the columns that are padding in every window."""
        size = int(self.mask.any(0).nonzero().amax()) + 1
        features = None if self.features is None else self.features[:, :size]
        return Stack(self.poses[:, :size], self.mask[:, :size], features), hidden[:, :size]


def stack(windows: Sequence[data.PoseSet], scale: float, kinds: Sequence[str] = ()) -> Stack:
    """Windows moved to the origin and divided by a scale, in float64, then cast.

    Features tell tokens which of `kinds` they are.
    """
    scaled = [data.rescaled(data.centred(x), 1 / scale) for x in windows]
    batch = data.collate(scaled, torch.float32)
    features = kind_features(windows, kinds) if kinds else None
    return Stack(batch.poses, batch.mask, features)


def unstack(poses: Tensor, windows: Sequence[data.PoseSet], scale: float) -> Tensor:
    """Poses `[W, m, m]`, one of each window, as they were before `stack`."""
    g, where = poses.double(), windows[0].group.position_entries
    means = torch.stack([x.poses[x.mask][:, where].mean(0) for x in windows])
    g[:, where] = g[:, where] * scale + means
    return g


class Stream:
    """Batches without end: every window once an epoch, in an order that seed and epoch tell.

    A batch is a function of its step alone, so that nothing has to be remembered to go on.
    """

    def __init__(self, windows: Stack, size: int, share: float, gaps: str, seed: int) -> None:
        self.windows, self.size, self.share, self.gaps = windows, size, share, gaps
        self.seed = seed
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def _draw_order(self, epoch: int) -> Tensor:
        count = len(self.windows.mask)
        return torch.randperm(count, generator=generator("order", self.seed, epoch))

    def indices(self, step: int) -> Tensor:
        """The windows of a batch, `[size]`."""
        count = len(self.windows.mask)
        places = range(step * self.size, (step + 1) * self.size)
        return torch.stack([self._order(place // count)[place % count] for place in places])

    def batch(self, step: int) -> tuple[Stack, Tensor]:
        """Windows and the tokens to hide, `[size, N]`."""
        rows = self.windows.rows(self.indices(step))
        own = generator("hide", self.seed, step)
        return rows, hide_some(rows.mask, self.share, self.gaps, own)


ENOUGH, MOST_DRAWS = 1000, 4  # hidden tokens to measure errors on, and how often they are drawn


def examination(
    windows: Stack, share: float, gaps: str, seed: int, part: str
) -> list[tuple[Stack, Tensor]]:
    """The same hidden tokens at every time, for validation and test.

    Drawn several times over where the windows are few.
    """
    drawn: list[tuple[Stack, Tensor]] = []
    while len(drawn) < MOST_DRAWS and sum(int(x.sum()) for _, x in drawn) < ENOUGH:
        own = generator(part, seed, len(drawn))
        drawn.append((windows, hide_some(windows.mask, share, gaps, own)))
    return drawn
