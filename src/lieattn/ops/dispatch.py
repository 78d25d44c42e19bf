"""`lie_attention`, the operator: checks what it is given and hands it to a backend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from .._precision import island
from ..groups import Group, get_group
from ..relations import Relations, gather_neighbours, relate
from ..scores import weighted_norm_logits
from . import _inputs
from .reference import attend, attend_lists

BACKENDS = ("auto", "reference")
Logits = Callable[[Tensor], Tensor]


def lie_attention(
    group: Group | str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor | Logits,
    mask: Tensor | None = None,
    exclude_self: bool = True,
    chart: str = "principal",
    backend: str = "auto",
    *,
    bias: Tensor | None = None,
    neighbours: Tensor | None = None,
    margin: float = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""Attention over group elements: `sum_j a_ij v_j` and `sum_j a_ij w_ij`.

    $a_{ij} = \mathrm{softmax}_j(-\|w_{ij}\|_\lambda^2/\tau)$, $w_{ij} = \log(g_i^{-1} g_j)$,
    Section 4.2. Both results are unchanged when one element moves all poses.

    Args:
        group: the group of the poses.
        q_poses: `[..., Nq, m, m]`. The leading dimensions, usually one, are the batch.
        k_poses: `[..., Nk, m, m]`.
        values: `[..., H, Nk, dv]`.
        weights: `lambda / tau`, `[H, K]` with a column for each block of the chart; or a `Score`,
            or any function from coordinates `[..., Nq, Nk, C]` to logits `[..., H, Nq, Nk]`.
        mask: boolean, True = may attend, broadcasts to `[..., H, Nq, Nk]`.
        exclude_self: leave out key i for query i; needs Nq == Nk.
        chart: "principal" or "polar". Pairs off the chart are not attended to.
        backend: "auto" or "reference".
        bias: added to the logits, broadcasts to `[..., H, Nq, Nk]`; -inf masks a pair.
        neighbours: `[..., Nq, k]`, the keys that each query attends to, filled up with -1. `mask`
            and `bias` then have k, a place in the list, where they had Nk. A key that is listed
            twice counts twice.
        margin: pairs closer to the cut of the chart than this angle are not attended to.
    Returns:
        `[..., H, Nq, dv]` and `[..., H, Nq, C]`, C coordinates of the chart. A row with nothing to
        attend to is zeros, with zero gradient.

    >>> import torch, lieattn as la
    >>> poses = la.SE2.random(1, 5)
    >>> values, weights = torch.randn(1, 4, 5, 8), torch.ones(4, 2)
    >>> out, coords = la.lie_attention(la.SE2, poses, poses, values, weights)
    >>> out.shape, coords.shape
    (torch.Size([1, 4, 5, 8]), torch.Size([1, 4, 5, 3]))
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; known are {', '.join(BACKENDS)}.")
    group = get_group(group)
    _inputs.require_tensors(values=values, mask=mask, bias=bias, neighbours=neighbours)
    if not isinstance(weights, Tensor) and not callable(weights):
        _inputs.require_tensors(weights=weights)
    if exclude_self:
        _inputs.require_square(q_poses, k_poses)
    rel = relate(group, q_poses, k_poses, chart, neighbours, exclude_self, margin)
    _inputs.require_values(values, q_poses, k_poses)
    if isinstance(weights, Tensor):
        _inputs.require_weights(weights, values.shape[-3], group, chart)
        parts = [block.dim for block in group.chart_blocks(chart)]
        weights = partial(weighted_norm_logits, weights=weights, parts=parts)
    return attend_relations(rel, values, weights, mask, bias, neighbours)


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
        logits = score(rel.coords)
        _inputs.require_logits(logits, rel.coords, values.shape[-3])
        # Poses so far away that the square of w overflows have no weight.
        allowed = rel.valid.unsqueeze(-3) & (logits != -torch.inf)
        batch = torch.broadcast_shapes(logits.shape[:-3], values.shape[:-3])
        shape = torch.Size((*batch, *logits.shape[-3:]))
        if mask is not None:
            _inputs.require_pairs("mask", mask, shape)
            allowed = allowed & mask
        if bias is not None:
            _inputs.require_pairs("bias", bias, shape)
            allowed = allowed & (bias != -torch.inf)
            logits = logits + torch.where(allowed, bias, 0).to(logits.dtype)
        if neighbours is None:
            return attend(logits, rel.coords, values, allowed)
        return attend_lists(
            logits, rel.coords, gather_neighbours(values, neighbours.unsqueeze(-3)), allowed
        )
