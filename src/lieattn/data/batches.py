"""Sets of different sizes as one padded batch, and tokens hidden from a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from .._core.text import quoted
from ..groups import Group
from .sets import PoseSet


class Batch(NamedTuple):
    """A padded batch, as models take it: `model(batch.poses, mask=batch.mask)`.

    Attributes:
        poses: `[B, N, m, m]`, N that of the largest set; identities where there is none.
        mask: `[B, N]`, True where there is a pose.
        names: of the sets.
    """

    poses: Tensor
    mask: Tensor
    names: tuple[str, ...]


def collate(sets: Sequence[PoseSet], dtype: torch.dtype = torch.float64) -> Batch:
    """Pad sets to one size. For a `DataLoader`, `collate_fn=partial(collate, dtype=...)`.

    >>> from lieattn import SE2, data
    >>> small, large = (data.from_tensor(SE2, SE2.random(n)) for n in (2, 5))
    >>> batch = collate([small, large], torch.float32)
    >>> batch.poses.shape, batch.poses.dtype, batch.mask.sum(-1)
    (torch.Size([2, 5, 3, 3]), torch.float32, tensor([2, 5]))
    """
    if not sets:
        raise ValueError("there are no sets to put into a batch.")
    group = require_one_group(sets)
    size = max(len(x) for x in sets)
    poses = group.identity(len(sets), size, dtype=torch.float64)
    mask = torch.zeros(len(sets), size, dtype=torch.bool)
    for i, x in enumerate(sets):
        poses[i, : len(x)], mask[i, : len(x)] = x.poses, x.mask
    return Batch(poses.to(dtype), mask, tuple(x.name for x in sets))


def require_one_group(sets: Sequence[PoseSet]) -> Group:
    """The group of all of them, or a ValueError that names two."""
    for x in sets[1:]:
        if x.group is not sets[0].group:
            raise ValueError(
                f"sets of one group are needed: {quoted(sets[0].name, 60)} is of {sets[0].group}, "
                f"{quoted(x.name, 60)} of {x.group}. read(..., group=...) takes poses as of a "
                "larger one."
            )
    return sets[0].group


def hide(
    mask: Tensor, share: float = 0.15, *, generator: Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Choose tokens to hide: which are left to see, and which are hidden, both `[..., N]`.

    Of every set `share` of the tokens that are there, rounded; at least one, and at least one is
    left, so that a set of a single token keeps it.

    >>> visible, hidden = hide(torch.ones(2, 10, dtype=torch.bool), 0.3)
    >>> hidden.sum(-1), (visible ^ hidden).all()
    (tensor([3, 3]), tensor(True))
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool, True where there is a token, got {mask.dtype}.")
    if not 0 < share < 1:
        raise ValueError(f"share is between 0 and 1, got {share}.")
    there = mask.sum(-1, keepdim=True)
    count = (there * share).round().clamp(min=1).minimum(there - 1)
    draw = torch.rand(mask.shape, generator=generator, device=mask.device)
    rank = torch.where(mask, draw, 2.0).argsort(-1).argsort(-1)
    hidden = mask & (rank < count)
    return mask & ~hidden, hidden
