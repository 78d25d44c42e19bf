"""Requests as kernels take them: one batch dimension, and what all kernels ask of a request."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from .._core.tensors import common_batch
from ..groups import Group, available_groups
from .request import Request


def flat(x: Tensor, batch: torch.Size) -> Tensor:
    """`[..., a, b, c]` as `[B, a, b, c]`."""
    if x.dim() == 4 and x.shape[:1] == batch:
        return x
    return x.expand(*batch, *x.shape[-3:]).reshape(batch.numel(), *x.shape[-3:])


def flat_pairs(x: Tensor | None, batch: torch.Size) -> Tensor | None:
    """A mask or bias as `[B or 1, H or 1, Nq or 1, Nk or 1]`; what it broadcasts is not copied."""
    if x is None:
        return None
    x = x if x.dtype == torch.bool else x.float()
    x = x[(None,) * (3 - x.dim())] if x.dim() < 3 else x
    if x.shape[:-3].numel() == 1:
        return x.reshape(1, *x.shape[-3:])
    return flat(x, batch)


def pair_strides(x: Tensor | None, pairs: tuple[int, ...]) -> tuple[int, ...]:
    """Strides along batch, heads, queries and keys, 0 where `x` broadcasts."""
    return x.expand(pairs).stride() if x is not None else (0, 0, 0, 0)


def own_batch(coords: Tensor, batch: torch.Size, request: Request) -> Tensor:
    """Coordinates without the batch that values alone have, where all of them are the same."""
    pairs = (x.shape[:-3] for x in (request.mask, request.bias) if x is not None)
    own = common_batch(request.q_poses.shape[:-3], request.k_poses.shape[:-3], *pairs)
    if own is None or own == batch:
        return coords
    more = len(batch) - len(own)
    coords = coords[(0,) * more]
    for dim, (size, whole) in enumerate(zip(own, batch[more:], strict=True)):
        coords = coords if size == whole else coords.narrow(dim, 0, 1)
    return coords


def is_registered(group: Group) -> bool:
    """A group of somebody else's may have the same name."""
    return available_groups().get(group.name) is group


def names(items: Iterable[object]) -> str:
    """For a sentence."""
    return " and ".join(sorted(map(str, items)))
