"""The reference: the operator as briefly as possible. Other backends are tested against it."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.tensors import gather_neighbours, island
from ..geometry.pairs import Relations
from ..scores import BlockNorm
from ._far import logits_within_range
from .request import Logits, Request, require_logits, require_pairs

# The fields of a request that are answered. `prune` allows to leave keys out, and none are.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "neighbours", "margin"),
        *("q_content", "k_content", "scale", "dtype", "prune", "first"),
    }
)


def unsupported(request: Request) -> str | None:
    """Nothing: the reference does what the operator promises."""
    return None


def run(request: Request) -> tuple[Tensor, Tensor]:
    """The two sums of a request, with all pairs in memory at once."""
    score = request.weights
    if isinstance(score, Tensor):
        parts = [block.dim for block in request.group.chart_blocks(request.chart)]
        score = BlockNorm(score, parts)
    neighbours, bias = request.neighbours, request.bias
    with island(request.q_poses):
        if request.q_content is not None and request.k_content is not None:
            content = content_logits(request.q_content, request.k_content, neighbours)
            bias = content if bias is None else content + bias
        rel = request.relations()
        return attend_relations(rel, request.values, score, request.mask, bias, neighbours)


def attend_relations(
    rel: Relations,
    values: Tensor,
    score: Logits,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    neighbours: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`lie_attention` from relations that were computed before, as layers share them.

    `rel.valid` tells the pairs that may attend, before `mask` and `bias`.
    """
    with island(rel.coords):
        logits = logits_within_range(rel, score, mask, bias)
        require_logits(logits, rel.coords, values.shape[-3])
        # Poses so far away that the square of w overflows have no weight.
        allowed = rel.valid.unsqueeze(-3) & (logits != -torch.inf)
        batch = torch.broadcast_shapes(logits.shape[:-3], values.shape[:-3])
        shape = torch.Size((*batch, *logits.shape[-3:]))
        if mask is not None:
            require_pairs("mask", mask, shape)
            allowed = allowed & mask
        if bias is not None:
            require_pairs("bias", bias, shape)
            allowed = allowed & (bias != -torch.inf)
            logits = logits + torch.where(allowed, bias, 0).to(logits.dtype)
        if neighbours is None:
            return attend(logits, rel.coords, values, allowed)
        return attend_lists(
            logits, rel.coords, gather_neighbours(values, neighbours.unsqueeze(-3)), allowed
        )


def content_logits(q: Tensor, k: Tensor, neighbours: Tensor | None = None) -> Tensor:
    """`q_i . k_j` of `q [..., H, Nq, c]` and `k [..., H, Nk, c]`, `[..., H, Nq, Nk]`."""
    if neighbours is None:
        return q @ k.mT
    listed = gather_neighbours(k, neighbours.unsqueeze(-3))
    return (q.unsqueeze(-2) @ listed.mT).squeeze(-2)


def attend(
    logits: Tensor, coords: Tensor, values: Tensor, allowed: Tensor
) -> tuple[Tensor, Tensor]:
    """`sum_j a_ij v_j` and `sum_j a_ij w_ij` with `a = softmax(logits)` over the allowed keys.

    The value map of the paper is linear, `W_V [h_j; w_ij] = W_h h_j + W_w w_ij`, so these two sums
    are all that a head needs, and no `[Nq, Nk, d]` tensor is built.

    Args:
        logits: `[..., H, Nq, Nk]`.
        coords: invariants of the pairs, `[..., Nq, Nk, C]`.
        values: `[..., H, Nk, dv]`.
        allowed: pairs that may attend, broadcasts to the logits. A row with none gives zeros.
    Returns:
        `[..., H, Nq, dv]` in the dtype of the values, `[..., H, Nq, C]` in that of the coords.
    """
    some = allowed.any(-1, keepdim=True)
    logits = torch.where(allowed, logits, -torch.inf)
    logits = torch.where(some, logits, 0)  # a softmax over nothing but -inf would be NaN
    a = torch.where(allowed, logits.softmax(-1), 0)
    dtype = torch.promote_types(a.dtype, values.dtype)
    mixed = (a.to(dtype) @ values.to(dtype)).to(values.dtype)
    pooled = (a.to(coords.dtype).transpose(-3, -2) @ coords).transpose(-3, -2)
    return mixed, pooled


def attend_lists(
    logits: Tensor, coords: Tensor, values: Tensor, allowed: Tensor
) -> tuple[Tensor, Tensor]:
    """`attend` where every query has keys of its own, `values [..., H, Nq, Nk, dv]`.

    A query with its own keys is a set of its own: the queries become a batch dimension.
    """
    rows = (x.transpose(-3, -2).unsqueeze(-2) for x in torch.broadcast_tensors(logits, allowed))
    logits, allowed = rows
    values = values.transpose(-4, -3)
    mixed, pooled = attend(logits, coords.unsqueeze(-3), values, allowed)
    return mixed.squeeze(-2).transpose(-3, -2), pooled.squeeze(-2).transpose(-3, -2)
