"""`LieAttention`: multi-head attention in which the geometry of pairs is both score and value."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .. import scores
from .._core.calls import by_name
from .._core.masks import both, pair_mask, without_padding
from .._core.tensors import at_least_float32, autocasting, common_batch, island, require_tensors
from ..geometry.pairs import (
    DeferredRelations,
    Relations,
    require_neighbours,
    require_sets,
    without_self,
)
from ..groups import Group, get_group
from ..ops import Request, attend_relations, content_logits
from ..ops.dispatch import require_backend, run
from ..ops.request import require_bias, require_prune, require_square, self_excluded
from ..scores import Score

FARTHEST = 1e16  # size of a coordinate that is added to hidden states


class LieAttention(nn.Module):
    r"""$h_i \leftarrow W_O \sum_j a_{ij} W_V [h_j; w_{ij}]$ for H heads, Section 4.2.

    Args:
        group: the group of the poses.
        dim: width d of the hidden state; a multiple of `heads`.
        heads: number of heads H.
        score: a name in `lieattn.scores.SCORES` ("norm" is the paper's), or a `Score`.
        chart: "principal" or "polar", see `relations`.
        positive: "softplus" or "log", how lambda and tau are kept positive.
        directed: add a term linear in w to the score.
        content: add the scaled product of queries and keys of the hidden states to the score.
        exclude_self: query i does not attend to key i. None means True in self-attention, and with
            a context what it means to `lie_attention`: True where its poses are the queries'.
            `Relations` already state which pairs attend; True excludes these pairs as well.
        chart_margin: pairs closer to the cut of the chart than this angle are not attended to,
            or in a global chart have coordinates on one side of it, see `relations`; by default
            `group.chart_margin(chart)`.
        autocast: let the linear layers follow `torch.autocast`, see `LieTransformerConfig`.
        backend: of `lie_attention`, for poses; relations that are given are summed by torch, and
            another backend than "auto" and "reference" refuses them.
        prune: share of a token's weights that may be left out, see `lie_attention`.

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
        exclude_self: bool | None = None,
        chart_margin: float | None = None,
        autocast: bool = False,
        backend: str = "auto",
        prune: float = 0.0,
    ) -> None:
        super().__init__()
        require_backend(backend)
        group = get_group(group)
        require_prune(prune)
        if dim < 1 or heads < 1 or dim % heads:
            raise ValueError(
                f"dim must be a positive multiple of heads, got dim={dim} and heads={heads}."
            )
        if isinstance(score, str):
            score = scores.make(
                score, group, heads, chart=chart, positive=positive, directed=directed
            )
        _require_score(score, group, heads, chart, positive, directed)
        self.group, self.dim, self.heads, self.chart = group, dim, heads, chart
        self.exclude_self = exclude_self
        self.chart_margin = group.chart_margin(chart) if chart_margin is None else chart_margin
        self.autocast, self.backend, self.prune = autocast, backend, prune
        self.score = score
        self.value = nn.Linear(dim + group.chart_dim(chart), dim)
        self.query_key = nn.Linear(dim, 2 * dim) if content else None
        self.out = nn.Linear(dim, dim)

    @by_name()
    def forward(
        self,
        h: Tensor,
        poses: Tensor | Relations | DeferredRelations,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        neighbours: Tensor | None = None,
        context: Tensor | None = None,
        context_poses: Tensor | None = None,
    ) -> Tensor:
        """Updates `[..., Nq, d]` of hidden states.

        Args:
            h: hidden states `[..., Nq, d]`.
            poses: `[..., Nq, m, m]`; or `Relations` of the queries with the keys, computed once
                and shared by layers; `valid` marks the pairs that may attend.
            context, context_poses: hidden states and poses of the keys, for cross-attention.
            mask: boolean, True = may attend: `[..., Nk]` for keys (True = real token),
                `[..., Nq, Nk]` for pairs, `[..., H, Nq, Nk]` for pairs and heads.
            bias: added to the logits, `[..., H, Nq, Nk]` where sizes of 1 broadcast, or `[Nq, Nk]`
                for all sets and heads.
            neighbours: `[..., Nq, k]` keys that each query attends to, see `lie_attention`; masks
                of pairs and biases then have k in the place of Nk.
        """
        require_tensors(h=h, context=context, context_poses=context_poses)
        require_tensors(mask=mask, bias=bias, neighbours=neighbours)
        keys = h if context is None else context
        self._require_hidden(h, context)
        self._require_context(poses, context, context_poses)
        if autocasting(h) and not self.autocast:  # the layer before may have left bfloat16
            h, keys = h.to(self.out.weight.dtype), keys.to(self.out.weight.dtype)
        if mask is not None and context is None and isinstance(poses, Tensor):
            poses = without_padding(self.group, poses, mask)
        if mask is not None and mask.dtype == torch.bool and mask.shape == keys.shape[:-1]:
            keys = torch.where(mask[..., None], keys, 0)  # padding may hold NaN
        rel = poses
        if isinstance(rel, Tensor):
            rel = self._deferred(rel, context_poses, neighbours)
        batch = _require_batch(h, keys, rel, neighbours)
        if mask is not None:
            mask = pair_mask(mask, batch, keys.shape[-2], neighbours)
        if bias is not None:
            require_bias(bias, len(batch))
        with island(h, self.autocast):
            return self._attend(h, keys, rel, mask, bias, neighbours)

    def _attend(
        self,
        h: Tensor,
        keys: Tensor,
        rel: Relations | DeferredRelations,
        mask: Tensor | None,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> Tensor:
        if isinstance(rel, DeferredRelations):
            request = self.request(h, keys, rel, mask, bias, neighbours)
            # Where processes hold some tokens each, query i is key i, and there are more keys.
            replace(request, exclude_self=False).check()
            mixed, coords = run(request, self.backend)
            if rel.queries is not None:
                real = rel.queries[..., None, :, None]
                mixed, coords = (torch.where(real, x, 0) for x in (mixed, coords))
        else:
            q, k = self._content(h, keys)
            if q is not None and k is not None:
                content = content_logits(q, k, neighbours)
                bias = content if bias is None else content + bias
            rel = Relations(at_least_float32(rel.coords, h), rel.valid)
            if self.exclude_self:
                rel = without_self(rel, neighbours)
            values = self._values(keys)
            mixed, coords = attend_relations(rel, values, self.score, mask, bias, neighbours)
        return self.combine(mixed, coords)

    def combine(self, mixed: Tensor, coords: Tensor) -> Tensor:
        """The update of a layer from the two sums of the operator, `[..., Nq, d]`."""
        # W_w of each head, [H, d/H, C], acts on the pooled invariants: the split value map.
        pose_weight = self.value.weight[:, self.dim :].unflatten(0, (self.heads, -1))
        # Squares of larger states would overflow in the norm that follows.
        coords = coords.clamp(-FARTHEST, FARTHEST).to(mixed.dtype)
        mixed = mixed + coords @ pose_weight.mT
        return self.out(mixed.transpose(-3, -2).flatten(-2))

    def request(
        self,
        h: Tensor,
        keys: Tensor,
        rel: DeferredRelations,
        mask: Tensor | None,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> Request:
        """The arguments of the operator."""
        dtype = torch.promote_types(h.dtype, torch.float32)
        q_content, k_content = self._content(h, keys)
        return Request(
            self.group,
            rel.q_poses,
            rel.k_poses,
            self._values(keys),
            self.weights(),
            mask=both(rel.mask, mask),
            bias=bias,
            exclude_self=rel.exclude_self,
            chart=self.chart,
            neighbours=neighbours,
            margin=rel.margin,
            q_content=q_content,
            k_content=k_content,
            scale=rel.scale,
            dtype=None if dtype == rel.q_poses.dtype else dtype,
            # Pruning sorts queries as keys are sorted: not where there are fewer of them.
            prune=0.0 if rel.exclude_self and h.shape[-2] != keys.shape[-2] else self.prune,
        )

    def weights(self) -> Tensor | Score:
        """The weights for the operator: block weights if the score has them, which is faster."""
        blocks = self.score.block_weights()
        return self.score if blocks is None else blocks

    def _deferred(
        self, poses: Tensor, context_poses: Tensor | None, neighbours: Tensor | None
    ) -> DeferredRelations:
        keys = poses if context_poses is None else context_poses
        require_sets(self.group, poses, keys)
        if neighbours is not None:
            require_neighbours(neighbours, poses.shape[-3], keys.shape[-3])
        without = True if self.exclude_self is None else self.exclude_self
        if context_poses is not None:
            without = self_excluded(self.exclude_self, poses, context_poses)
            if without:
                require_square(poses, keys)
        return DeferredRelations(poses, keys, without, self.chart_margin)

    def _heads(self, x: Tensor) -> Tensor:
        """`[..., N, d]` as `[..., H, N, d / H]`."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _values(self, keys: Tensor) -> Tensor:
        """`W_h h_j` of each head, `[..., H, Nk, d / H]`."""
        return self._heads(linear(keys, self.value.weight[:, : self.dim], self.value.bias))

    def _content(self, h: Tensor, keys: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Queries over `sqrt(d / H)` and keys of the hidden states, `[..., H, N, d / H]`."""
        if self.query_key is None:
            return None, None
        weight, bias = self.query_key.weight, self.query_key.bias
        q = self._heads(linear(h, weight[: self.dim], bias[: self.dim]))
        k = self._heads(linear(keys, weight[self.dim :], bias[self.dim :]))
        return q * (self.dim // self.heads) ** -0.5, k

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
        self,
        poses: Tensor | Relations | DeferredRelations,
        context: Tensor | None,
        context_poses: Tensor | None,
    ) -> None:
        if isinstance(poses, Relations):
            width = self.group.chart_dim(self.chart)
            if poses.coords.shape[-1] != width:
                raise ValueError(
                    f"relations must be of {self.group} in the {self.chart} chart, with {width} "
                    f"coordinates, got {poses.coords.shape[-1]}."
                )
            if context_poses is not None:
                raise ValueError(
                    "relations are those of the keys already: leave out context_poses."
                )
            if self.backend not in ("auto", "reference"):
                raise ValueError(
                    f"backend {self.backend!r} computes relations itself: pass poses, or leave the "
                    "layer's backend at 'auto'."
                )
            return
        if isinstance(poses, DeferredRelations):
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


def _require_score(
    score: Score, group: Group, heads: int, chart: str, positive: str, directed: bool
) -> None:
    if not isinstance(score, Score):
        raise TypeError(
            f"score must be a name or a Score module, got {score!r}. Known names are "
            f"{', '.join(scores.SCORES)}."
        )
    expected = {"group": group, "heads": heads, "chart": chart}
    if positive != "softplus":
        expected["positive"] = positive
    for name, own in expected.items():
        if getattr(score, name) != own:
            raise ValueError(f"the score has {name} {getattr(score, name)}, the layer {own}.")
    if directed and not isinstance(score, scores.DirectedScore):
        raise ValueError("for a directed score of your own pass scores.DirectedScore(score).")


def _require_batch(
    h: Tensor, keys: Tensor, rel: Relations | DeferredRelations, neighbours: Tensor | None
) -> torch.Size:
    """The batch of states and poses, which must be of the same tokens."""
    if isinstance(rel, Relations):
        queries, shapes = rel.valid.shape[-2], [rel.valid.shape[:-2]]
    else:
        queries, shapes = rel.q_poses.shape[-3], [rel.q_poses.shape[:-3], rel.k_poses.shape[:-3]]
        if neighbours is not None:
            shapes.append(neighbours.shape[:-2])
    if queries != h.shape[-2]:
        raise ValueError(
            f"poses and hidden states must be of the same tokens, got {queries} poses and hidden "
            f"states {list(h.shape)}."
        )
    batch = common_batch(h.shape[:-2], keys.shape[:-2], *shapes)
    if batch is None:
        raise ValueError(
            "hidden states, poses and context must have the same batch, got "
            f"{list(h.shape[:-2])}, {list(shapes[0])} and {list(keys.shape[:-2])}."
        )
    return batch
