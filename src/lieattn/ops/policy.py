"""Whether relations are computed once and kept for all layers, or by each layer again."""

from __future__ import annotations

import torch
from torch import Tensor

from ..groups import Group
from .dispatch import is_fast
from .request import Logits, Request

# A fast backend computes relations again in every layer in less time than torch computes them once,
# at every size. Without one, computing them once for all layers is two to four times as fast, at
# some ten times their size in memory for every layer. From here on memory counts for more.
KEPT_BYTES = 128 * 2**20


def keeps_relations(
    group: Group,
    poses: Tensor,
    weights: Tensor | Logits,
    *,
    chart: str,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    neighbours: Tensor | None = None,
    content: bool = False,
    scaled: bool = False,
) -> bool:
    """Whether the relations of a set are computed once and kept.

    Args:
        group, poses, weights, chart, bias, neighbours: as of `lie_attention`.
        dtype: of the hidden states.
        content: whether products of hidden states are added to the logits.
        scaled: whether coordinates are divided by scales of the set.
    """
    if torch.compiler.is_compiling():  # one program for sets of any size
        return True
    columns = poses.shape[-3] if neighbours is None else neighbours.shape[-1]
    numbers = poses.shape[:-2].numel() * columns * group.chart_dim(chart)
    if numbers * poses.element_size() > KEPT_BYTES:
        return False
    values = poses.new_empty((*poses.shape[:-3], 1, poses.shape[-3], 0), dtype=dtype)
    wide = torch.promote_types(dtype, torch.float32)
    return not is_fast(
        Request(
            group,
            poses,
            poses,
            values,
            weights,
            bias=bias,
            chart=chart,
            neighbours=neighbours,
            q_content=values if content else None,
            k_content=values if content else None,
            scale=poses if scaled else None,
            dtype=None if wide == poses.dtype else wide,
        )
    )
