"""`LieAttention`: multi-head attention in which the geometry of pairs is both score and value."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from . import scores
from ._precision import at_least_float32, autocasting, island
from .groups import Group, get_group
from .ops import attend_relations
from .ops._inputs import require_tensors
from .relations import Relations, common_batch, gather_neighbours, relate
from .scores import Score


class LieAttention(nn.Module):
    r"""$h_i \leftarrow W_O \sum_j a_{ij} W_V [h_j; w_{ij}]$ for H heads, Section 4.2.

    Args:
        group: the group of the poses.
        dim: width d of the hidden state; a multiple of `heads`.
        heads: number of heads H.
        score: "norm" (the paper's), "isotropic", "diagonal", "full", "mlp", or a `Score`.
        chart: "principal" or "polar", see `relations`.
        positive: "softplus" or "log", how lambda and tau are kept positive.
        directed: add a term linear in w to the score.
        content: add the scaled product of queries and keys of the hidden states to the score.
        exclude_self: no token attends to itself (in self-attention).
        chart_margin: pairs closer to the cut of the chart than this angle are not attended to; by
            default `group.chart_margin(chart)`.
        autocast: let the linear layers follow `torch.autocast`, see `LieTransformerConfig`.

    >>> import torch, lieattn as la
    >>> layer = la.LieAttention(la.SE3, dim=32, heads=4)
    >>> layer(torch.zeros(2, 7, 32), la.SE3.random(2, 7)).shape
    torch.Size([2, 7, 32])
    """

    def __init__(
        self,
        group: Group | str,
        dim: int,
        heads: int,
        score: str | Score = "norm",
        *,
        chart: str = "principal",
        positive: str = "softplus",
        directed: bool = False,
        content: bool = False,
        exclude_self: bool = True,
        chart_margin: float | None = None,
        autocast: bool = False,
    ) -> None:
        super().__init__()
        group = get_group(group)
        if dim < 1 or heads < 1 or dim % heads:
            raise ValueError(
                f"dim must be a positive multiple of heads, got dim={dim} and heads={heads}."
            )
        if isinstance(score, str):
            score = scores.make(
                score, group, heads, chart=chart, positive=positive, directed=directed
            )
        _require_score(score, group, heads, chart, directed)
        self.group, self.dim, self.heads, self.chart = group, dim, heads, chart
        self.exclude_self = exclude_self
        self.chart_margin = group.chart_margin(chart) if chart_margin is None else chart_margin
        self.autocast = autocast
        self.score = score
        self.value = nn.Linear(dim + group.chart_dim(chart), dim)
        self.query_key = nn.Linear(dim, 2 * dim) if content else None
        self.out = nn.Linear(dim, dim)

    def forward(
        self,
        h: Tensor,
        poses: Tensor | Relations,
        *,
        context: Tensor | None = None,
        context_poses: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        neighbours: Tensor | None = None,
    ) -> Tensor:
        """Updates `[..., Nq, d]` of hidden states.

        Args:
            h: hidden states `[..., Nq, d]`.
            poses: `[..., Nq, m, m]`; or `Relations` of the queries with the keys, computed once
                and shared by layers, whose `valid` tells the pairs that may attend.
            context, context_poses: hidden states and poses of the keys, for cross-attention.
            mask: boolean, True = may attend: `[..., Nk]` for keys (True = real token),
                `[..., Nq, Nk]` for pairs, `[..., H, Nq, Nk]` for pairs and heads.
            bias: added to the logits, `[..., H, Nq, Nk]`, or `[..., Nq, Nk]` for all heads.
            neighbours: `[..., Nq, k]` keys that each query attends to, see `lie_attention`; masks
                of pairs and biases then have k in the place of Nk.
        """
        require_tensors(h=h, context=context, context_poses=context_poses, mask=mask, bias=bias)
        keys = h if context is None else context
        self._require_hidden(h, context)
        self._require_context(poses, context, context_poses)
        if autocasting(h) and not self.autocast:  # the layer before may have left bfloat16
            h, keys = h.to(self.out.weight.dtype), keys.to(self.out.weight.dtype)
        if mask is not None and context is None and isinstance(poses, Tensor):
            poses = without_padding(self.group, poses, mask)
        if mask is not None and mask.dtype == torch.bool and mask.shape == keys.shape[:-1]:
            keys = torch.where(mask[..., None], keys, 0)  # padding may hold NaN
        rel = self._relations(h, poses, context_poses, neighbours)
        batch = common_batch(h.shape[:-2], keys.shape[:-2], rel.valid.shape[:-2])
        if batch is None:
            raise ValueError(
                "hidden states, poses and context must have the same batch, got "
                f"{list(h.shape[:-2])}, {list(rel.valid.shape[:-2])} and {list(keys.shape[:-2])}."
            )
        if mask is not None:
            mask = pair_mask(mask, batch, keys.shape[-2], neighbours)
        if bias is not None:
            bias = pair_bias(bias, len(batch))
        with island(h, self.autocast):
            return self._attend(h, keys, rel, mask, bias, neighbours)

    def _attend(
        self,
        h: Tensor,
        keys: Tensor,
        rel: Relations,
        mask: Tensor | None,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> Tensor:
        if self.query_key is not None:
            content = self._content(h, keys, neighbours)
            bias = content if bias is None else content + bias
        weight = self.value.weight
        values = self._heads(linear(keys, weight[:, : self.dim], self.value.bias))
        mixed, coords = attend_relations(rel, values, self.score, mask, bias, neighbours)
        # W_w of each head, [H, d/H, C], acts on the pooled invariants: the split value map.
        pose_weight = weight[:, self.dim :].unflatten(0, (self.heads, -1))
        mixed = mixed + coords.to(mixed.dtype) @ pose_weight.mT
        return self.out(mixed.transpose(-3, -2).flatten(-2))

    def _relations(
        self,
        h: Tensor,
        poses: Tensor | Relations,
        context_poses: Tensor | None,
        neighbours: Tensor | None,
    ) -> Relations:
        if isinstance(poses, Relations):
            rel = poses
        else:
            keys = poses if context_poses is None else context_poses
            exclude_self = self.exclude_self and context_poses is None
            rel = relate(
                self.group, poses, keys, self.chart, neighbours, exclude_self, self.chart_margin
            )
        if rel.valid.shape[-2] != h.shape[-2]:
            raise ValueError(
                f"poses and hidden states must be of the same tokens, got {rel.valid.shape[-2]} "
                f"poses and hidden states {list(h.shape)}."
            )
        return Relations(at_least_float32(rel.coords, h), rel.valid)

    def _heads(self, x: Tensor) -> Tensor:
        """`[..., N, d]` as `[..., H, N, d / H]`."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _content(self, h: Tensor, keys: Tensor, neighbours: Tensor | None) -> Tensor:
        """`q_i . k_j / sqrt(d / H)` of the hidden states, `[..., H, Nq, Nk]`."""
        assert self.query_key is not None
        weight, bias = self.query_key.weight, self.query_key.bias
        q = self._heads(linear(h, weight[: self.dim], bias[: self.dim]))
        k = self._heads(linear(keys, weight[self.dim :], bias[self.dim :]))
        if neighbours is None:
            logits = q @ k.mT
        else:
            k = gather_neighbours(k, neighbours.unsqueeze(-3))
            logits = (q.unsqueeze(-2) @ k.mT).squeeze(-2)
        return logits * (self.dim // self.heads) ** -0.5

    def _require_hidden(self, h: Tensor, context: Tensor | None) -> None:
        for name, x in (("h", h), ("context", h if context is None else context)):
            if x.dim() < 2 or x.shape[-1] != self.dim:
                raise ValueError(
                    f"{name} must have shape [..., N, {self.dim}], got {list(x.shape)}."
                )
            if x.dtype != self.out.weight.dtype and not autocasting(x):
                raise ValueError(
                    f"{name} must have the dtype of the layer, {self.out.weight.dtype}, got "
                    f"{x.dtype}."
                )

    def _require_context(
        self, poses: Tensor | Relations, context: Tensor | None, context_poses: Tensor | None
    ) -> None:
        if isinstance(poses, Relations):
            width = self.group.chart_dim(self.chart)
            if poses.coords.shape[-1] != width:
                raise ValueError(
                    f"relations must be of {self.group} in the {self.chart} chart, with {width} "
                    f"coordinates, got {poses.coords.shape[-1]}."
                )
            return
        if (context is None) != (context_poses is None):
            raise ValueError(
                "context and context_poses go together: hidden states and poses of the keys."
            )
        if context is None or context_poses is None:
            return
        if context.shape[-2:-1] != context_poses.shape[-3:-2]:
            raise ValueError(
                f"context and context_poses must be of the same tokens, got {list(context.shape)} "
                f"and {list(context_poses.shape)}."
            )


def _require_score(score: Score, group: Group, heads: int, chart: str, directed: bool) -> None:
    if not isinstance(score, Score):
        raise TypeError(
            f"score must be a name or a Score module, got {score!r}. Known names are "
            f"{', '.join(scores.SCORES)}."
        )
    for name, got, expected in (
        ("group", score.group, group),
        ("heads", score.heads, heads),
        ("chart", score.chart, chart),
    ):
        if got != expected:
            raise ValueError(f"the score has {name} {got}, the layer {expected}.")
    if directed and not isinstance(score, scores.DirectedScore):
        raise ValueError("for a directed score of your own pass scores.DirectedScore(score).")


def without_padding(group: Group, poses: Tensor, tokens: Tensor) -> Tensor:
    """Poses with the identity where a mask of tokens `[..., N]` says padding, whatever it holds."""
    if tokens.shape != poses.shape[:-2] or tokens.dtype != torch.bool:
        return poses  # a mask of pairs, or one of which `pair_mask` says what is wrong
    eye = group.identity(dtype=poses.dtype, device=poses.device)
    return torch.where(tokens[..., None, None], poses, eye)


def pair_mask(
    mask: Tensor, batch: torch.Size, keys: int, neighbours: Tensor | None = None
) -> Tensor:
    """A layer's mask of keys, of pairs, or of pairs and heads, as `[..., H, Nq, Nk]`.

    Args:
        mask: one, two or three dimensions more than the batch.
        batch: the shape of the batch.
        keys: the number of keys.
        neighbours: lists `[..., Nq, k]`, for which a mask of keys is looked up.
    """
    require_boolean(mask)
    extra = mask.dim() - len(batch)
    fits = common_batch(mask.shape[: len(batch)], batch) == batch
    if extra == 1 and (mask.shape[-1] != keys or not fits):
        raise ValueError(
            f"a mask of tokens must have shape {[*batch, keys]}, got {list(mask.shape)}. A mask of "
            "pairs has one dimension more, [B, Nq, Nk]: for all sets alike use mask[None]."
        )
    if extra == 1 and neighbours is not None:
        return gather_neighbours(mask[..., None], neighbours)[..., 0].unsqueeze(-3)
    if extra == 1:
        return mask[..., None, None, :]
    if extra in (2, 3):
        return mask if extra == 3 else mask.unsqueeze(-3)
    raise ValueError(
        f"mask must be [B, Nk] (tokens), [B, Nq, Nk] (pairs) or [B, H, Nq, Nk], with batch "
        f"{list(batch)}, got {list(mask.shape)}."
    )


def require_boolean(mask: Tensor) -> None:
    """A mask is boolean; what else people hold is told how to become one."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, True for a real token, got {mask.dtype}. From lengths use "
            "torch.arange(N) < lengths[:, None]; from 1 and 0, mask.bool(); from 0 and -inf, "
            "mask == 0."
        )


def pair_bias(bias: Tensor, batch: int) -> Tensor:
    """A layer's bias of pairs, or of pairs and heads, as `[..., H, Nq, Nk]`."""
    if bias.dim() - batch not in (2, 3):
        raise ValueError(
            f"bias must be [B, H, Nq, Nk], or [B, Nq, Nk] for all heads, with {batch} batch "
            f"dimensions, got {list(bias.shape)}."
        )
    return bias if bias.dim() - batch == 3 else bias.unsqueeze(-3)
