"""`lie_attention`, the operator: makes a request, checks it and hands it to a backend."""

from __future__ import annotations

from torch import Tensor

from .._core.tensors import require_tensors
from ..groups import Group, get_group
from ..scores import Score
from . import dispatch
from .request import Logits, Request, self_excluded


def lie_attention(
    group: Group | str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor | Logits,
    mask: Tensor | None = None,
    exclude_self: bool | None = None,
    chart: str = "principal",
    backend: str = "auto",
    *,
    bias: Tensor | None = None,
    neighbours: Tensor | None = None,
    margin: float = 0.0,
    prune: float = 0.0,
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
        mask: boolean, True = may attend, broadcasts to `[..., H, Nq, Nk]`: one of tokens is
            `mask[:, None, None, :]`. Three dimensions are `[H, Nq, Nk]`, and refused where they
            could be `[B, Nq, Nk]` too, which they mean to a layer.
        exclude_self: leave out key i for query i; needs Nq == Nk. None, the default, means True
            where keys are the queries (one tensor, or views of the same memory with equal shapes
            and strides) and False elsewhere. Inside torch.func transforms, torch.compile and
            export that cannot be told: pass True or False.
        chart: "principal" or "polar". Pairs off the chart are not attended to.
        backend: "auto" (the fastest that can do it), "reference" (all pairs in memory), "tiled"
            (memory linear in the number of tokens), "native" (CPU) or "triton" (GPU).
        bias: added to the logits, `[Nq, Nk]`, or `[..., H, Nq, Nk]` with all dimensions of the
            batch, where sizes of 1 broadcast; -inf masks a pair.
        neighbours: `[..., Nq, k]`, the keys that each query attends to, filled up with -1. `mask`
            and `bias` then have k, a place in the list, where they had Nk. A key that is listed
            twice counts twice.
        margin: pairs closer to the cut of the chart than this angle are not attended to, or in the
            polar chart of Aff(n) have coordinates on one side of it, see `relations`.
        prune: the backend "native" may leave out keys that have less than this share of a query's
            weight together, and finds such keys on SE(2) and SE(3) by their distance; 0 leaves out
            nothing. The guide bounds what the results change by.
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
    dispatch.require_backend(backend)
    if not isinstance(group, Group):
        group = get_group(group)
    require_tensors(values=values, mask=mask, bias=bias)
    if not callable(weights):
        require_tensors(weights=weights)
    if isinstance(weights, Score):
        blocks = weights.block_weights()  # which more backends know than a score
        weights = weights if blocks is None else blocks
    request = Request(
        group,
        q_poses,
        k_poses,
        values,
        weights,
        mask=mask,
        bias=bias,
        exclude_self=self_excluded(exclude_self, q_poses, k_poses),
        chart=chart,
        neighbours=neighbours,
        margin=margin,
        prune=prune,
    )
    return run_request(request, backend)


def run_request(request: Request, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """The two sums of a request, whose tensors are checked first."""
    request.check()
    return dispatch.run(request, backend)
