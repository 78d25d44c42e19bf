"""What the operator accepts: messages for tensors that do not fit together. No values are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.tensors import common_batch, has_memory, is_dense
from ..geometry.pairs import require_neighbours, require_sets
from ..groups import Group

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
    if (request.q_content is None) != (request.k_content is None):
        raise ValueError("q_content and k_content go together: contents of queries and keys.")
    if request.mask is None and request.bias is None:
        return
    batch, heads = request.batch, values.shape[-3]
    shape = torch.Size((*batch, heads, q.shape[-3], columns))
    if request.bias is not None:
        require_bias(request.bias, len(batch))
        require_pairs("bias", request.bias, shape)
    if request.mask is not None:
        require_pairs("mask", request.mask, shape)
        _require_one_meaning(request.mask, shape)


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


def require_bias(bias: Tensor, batch: int) -> None:
    """A bias is of all pairs, `[Nq, Nk]`, or names sets and heads both, `[..., H, Nq, Nk]`.

    With three dimensions and one of the batch, nobody could tell sets from heads.
    """
    if bias.dim() in (2, batch + 3):
        return
    hint = ""
    if bias.dim() == batch + 2:
        hint = " For one bias a set, shared by its heads, use bias.unsqueeze(-3)"
        hint += "; for one a head, shared by all sets, bias[None]." if batch == 1 else "."
    raise ValueError(
        f"bias must be [Nq, Nk], or [{'B, ' * batch}H, Nq, Nk] where sizes of 1 broadcast, got "
        f"{list(bias.shape)}.{hint}"
    )


def _require_one_meaning(mask: Tensor, shape: torch.Size) -> None:
    """A mask `[B, Nq, Nk]` means sets to a layer, and broadcasts as `[H, Nq, Nk]` here."""
    batch, first = shape[:-3], mask.shape[:-2]
    if len(first) == len(batch) and first.numel() != 1 and _broadcasts(first, batch):
        raise ValueError(
            f"mask {list(mask.shape)} could be one of sets or of heads, for {list(shape)} (batch, "
            "heads, queries, keys). Use mask.unsqueeze(-3) for one mask a set, mask[None] for one "
            "a head."
        )


def self_excluded(exclude_self: bool | None, q_poses: Tensor, k_poses: Tensor) -> bool:
    """Whether key i is left out for query i: as asked, or with None where keys are the queries.

    They are if both are one tensor, or views of the same memory. `q is k` would not do, since
    `p[None] is p[None]` is False.
    """
    if exclude_self is not None:
        return exclude_self
    if any(not isinstance(x, Tensor) or not is_dense(x) for x in (q_poses, k_poses)):
        return False  # `require_sets` says what is wrong
    if not has_memory(q_poses, k_poses) or torch._C._get_tracing_state() is not None:
        raise ValueError(
            "whether keys are the queries cannot be told inside torch.func transforms, "
            "torch.compile and export. Pass exclude_self=True to leave out key i for query i, as "
            "in self-attention, or exclude_self=False."
        )
    return q_poses is k_poses or _place(q_poses) == _place(k_poses)


def _place(x: Tensor) -> tuple[object, ...]:
    """Where the elements of a tensor lie; the stride of a single element is of no meaning."""
    strides = tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n != 1)
    return x.device, x.dtype, x.data_ptr(), x.shape, strides


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
