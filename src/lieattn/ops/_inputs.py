"""What the operator accepts: messages for tensors that do not fit together. No values are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..groups import Group
from ..relations import common_batch, require_neighbours, require_sets

if TYPE_CHECKING:
    from .request import Request


def require_request(request: Request) -> None:
    """All tensors of a request fit together."""
    group, q, k, values = request.group, request.q_poses, request.k_poses, request.values
    if request.exclude_self:
        require_square(q, k)
    require_sets(group, q, k)
    columns = k.shape[-3]
    if request.neighbours is not None:
        require_neighbours(request.neighbours, q.shape[-3], k.shape[-3])
        columns = request.neighbours.shape[-1]
    require_values(values, q, k)
    require_prune(request.prune)
    if isinstance(request.weights, Tensor):
        require_weights(request.weights, values.shape[-3], group, request.chart)
    for name, x in (("mask", request.mask), ("bias", request.bias)):
        if x is not None:
            shape = *request.batch, values.shape[-3], q.shape[-3], columns
            require_pairs(name, x, torch.Size(shape))


def require_tensors(**arguments: object) -> None:
    """Every argument is a tensor or was left out (None)."""
    for name, x in arguments.items():
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(
                f"{name} must be a torch.Tensor, got {type(x).__name__}. Use torch.as_tensor(...)."
            )


def require_values(values: Tensor, q_poses: Tensor, k_poses: Tensor) -> None:
    """Values are `[..., H, Nk, dv]`, with the batch of the poses."""
    if not values.is_floating_point():
        raise ValueError(f"values must be floating-point numbers, got {values.dtype}.")
    keys = k_poses.shape[-3]
    batch = common_batch(q_poses.shape[:-3], k_poses.shape[:-3]) or torch.Size()
    fits = values.dim() >= 3 and values.shape[-2] == keys
    if not fits or common_batch(values.shape[:-3], batch) is None:
        expected = f"[{', '.join(map(str, batch))}{', ' if batch else ''}H, {keys}, dv]"
        raise ValueError(
            f"values must have shape {expected} (batch, heads, keys, width), got "
            f"{list(values.shape)}; the key poses are {list(k_poses.shape)}."
        )


def require_weights(weights: Tensor, heads: int, group: Group, chart: str) -> None:
    """Block weights are `[H, K]`, a row a head and a column a block of the chart."""
    blocks = group.chart_blocks(chart)
    if weights.shape != (heads, len(blocks)):
        names = ", ".join(block.name for block in blocks)
        raise ValueError(
            f"weights must have shape [{heads}, {len(blocks)}] (heads of the values, blocks of "
            f"{group} in the {chart} chart: {names}), got {list(weights.shape)}."
        )


def require_prune(prune: float) -> None:
    """A share of the weights of a query."""
    if isinstance(prune, bool) or not isinstance(prune, int | float):
        raise TypeError(f"prune must be a number, got {type(prune).__name__} {prune!r}.")
    if not 0 <= prune < 1:
        raise ValueError(
            f"prune is the share of a query's weights that may be left out, from 0 (nothing) to "
            f"below 1, got {prune}. 1e-3 is a good start."
        )


def require_logits(logits: Tensor, coords: Tensor, heads: int) -> None:
    """A score answers coordinates `[..., Nq, Nk, C]` with logits `[..., H, Nq, Nk]`."""
    *batch, queries, keys, _ = coords.shape
    fits = [[*batch, h, queries, keys] for h in {1, heads}]
    if list(logits.shape) not in fits:
        raise ValueError(
            f"the score returned {list(logits.shape)} for coordinates {list(coords.shape)}, "
            f"expected {[*batch, heads, queries, keys]} (batch, heads, queries, keys). For one "
            "score for all heads use logits.unsqueeze(-3)."
        )


def require_pairs(name: str, x: Tensor, shape: torch.Size) -> None:
    """A mask or bias broadcasts to the logits, `[..., H, Nq, Nk]`."""
    if name == "mask" and x.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, True where a query may attend to a key, got {x.dtype}. For a "
            "mask of zeros and -inf use bias=mask."
        )
    if not _broadcasts(x.shape, shape):
        hint = ""
        if x.dim() == 2 and x.shape == (shape[0], shape[-1]):
            hint = f" To mask the keys of each set use {name}[:, None, None, :]."
        raise ValueError(
            f"{name} must broadcast to {list(shape)} (batch, heads, queries, keys), got "
            f"{list(x.shape)}.{hint}"
        )


def require_square(q_poses: Tensor, k_poses: Tensor) -> None:
    """`exclude_self` pairs query i with key i."""
    if any(not isinstance(x, Tensor) or x.dim() < 3 for x in (q_poses, k_poses)):
        return  # `relations` says what is wrong
    queries, keys = q_poses.shape[-3], k_poses.shape[-3]
    if queries != keys:
        raise ValueError(
            f"exclude_self leaves out key i for query i and needs as many queries as keys, got "
            f"{queries} and {keys}. For attention between two sets pass exclude_self=False."
        )


def _broadcasts(shape: torch.Size, target: torch.Size) -> bool:
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(a in (1, b) for a, b in pairs)
