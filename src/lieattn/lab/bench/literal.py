"""Attention as the paper prints it, in eager torch: what one writes first. All pairs exist."""

from __future__ import annotations

import torch
from torch import Tensor

from ...groups import Group


def literal_attention(
    group: Group, poses: Tensor, hidden: Tensor, weights: Tensor, value_map: Tensor
) -> Tensor:
    """`sum_j a_ij W_V [h_j; w_ij]` with `a = softmax(-|w|^2_lambda / tau)`, Section 4.2.

    Args:
        group: the group of the poses.
        poses: `[B, N, m, m]`.
        hidden: `[B, N, d]`.
        weights: `lambda / tau`, `[H, K]`.
        value_map: `W_V` of all heads, `[d, d + dim]`.
    Returns:
        `[B, H, N, d / H]`.
    """
    heads, n = len(weights), poses.shape[1]
    rel = group.compose(group.inverse(poses)[:, :, None], poses[:, None])  # [B, N, N, m, m]
    w = group.log(rel)
    logits = -torch.einsum("bijk,hk->bhij", group.block_sq_norms(w), weights)
    itself = torch.eye(n, dtype=torch.bool, device=poses.device)
    a = logits.masked_fill(itself, -torch.inf).softmax(-1)
    h = hidden[:, None].expand(-1, n, -1, -1)
    values = torch.cat((h, w), dim=-1) @ value_map.T  # [B, N, N, d]
    return torch.einsum("bhij,bijhv->bhiv", a, values.unflatten(-1, (heads, -1)))
