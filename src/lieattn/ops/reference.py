"""The truth: Lie-Algebra Attention as short as it can be said. Other backends are tested on it."""

from __future__ import annotations

import torch
from torch import Tensor


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
    pooled = (a.transpose(-3, -2) @ coords).transpose(-3, -2)
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
