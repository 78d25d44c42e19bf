"""`LieTransformer`: a plain pre-norm transformer whose tokens are group elements."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from .._core.calls import by_name
from .._core.masks import split_mask
from .._core.pytree import exportable
from .._core.tensors import at_least_float32, island, require_tensors
from ..geometry.pairs import DeferredRelations, Relations, divide, relate, require_set
from ..groups import Group, get_group
from ..ops.policy import keeps_relations
from . import inputs
from .attention import LieAttention
from .config import LieTransformerConfig
from .heads import CorrectionHead, UpdateHead
from .pretrained import Pretrained
from .scales import block_scales, deferred_scales


@exportable
class LieTransformerOutput(NamedTuple):
    """Of every token: an invariant state, an invariant correction, and the corrected pose.

    With pose updates delta corrects `frames`, not the input: losses of delta want those.
    """

    hidden: Tensor  # [..., N, d], invariant
    delta: Tensor  # [..., N, dim], invariant correction in orthonormal coordinates
    poses: Tensor  # [..., N, m, m], frames exp(delta), equivariant
    frames: Tensor  # [..., N, m, m], what delta corrects: the input, or where updates moved it


class FeedForward(nn.Sequential):
    """Two linear layers of hidden width 4d with a GELU between them."""

    def __init__(self, dim: int) -> None:
        super().__init__(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))


class LieTransformerLayer(nn.Module):
    """`h + Attn(LN(h), w)`, then `h + FFN(LN(h))`, Section 4.2."""

    def __init__(self, group: Group, config: LieTransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.dim)
        self.attention = LieAttention(
            group,
            config.dim,
            config.heads,
            config.score,
            chart=config.chart,
            positive=config.positive,
            directed=config.directed,
            content=config.content,
            exclude_self=False,  # the transformer leaves the diagonal out once for all layers
            autocast=config.autocast,
            prune=config.prune,
        )
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.feed_forward = FeedForward(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        h: Tensor,
        rel: Relations | DeferredRelations,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> Tensor:
        normed = self.attention_norm(h)
        h = h + self.dropout(self.attention(normed, rel, bias=bias, neighbours=neighbours))
        return h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))


class LieTransformer(Pretrained, nn.Module):
    r"""Invariant features and equivariant poses from a set of poses, Section 4 of the paper.

    Every token starts from the same learned vector; all that tells tokens apart enters through
    $w_{ij} = \log(g_i^{-1} g_j)$, computed once and shared by the layers (by each layer, block by
    block, where the set is too large to keep it). The output pose is $g_i \exp(\delta_i)$.

    Args:
        group: the group of the poses.
        config: `LieTransformerConfig`; `LieTransformerConfig.paper()` is the paper's.

    >>> import lieattn as la
    >>> model = la.LieTransformer(la.SE3, la.LieTransformerConfig(dim=32, heads=4, layers=3))
    >>> out = model(la.SE3.random(2, 7))
    >>> out.hidden.shape, out.delta.shape, out.poses.shape
    (torch.Size([2, 7, 32]), torch.Size([2, 7, 6]), torch.Size([2, 7, 4, 4]))
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        super().__init__()
        group, config = get_group(group), LieTransformerConfig.or_default(config)
        self.group, self.config = group, config
        for chart in {config.chart, _output_chart(config)}:
            group.chart_blocks(chart)  # raises where the group does not have it
        self.check_inputs = True
        self.h0 = nn.Parameter(torch.randn(config.dim) * config.dim**-0.5)
        self.embed = nn.Linear(config.features, config.dim) if config.features else None
        self.layers = nn.ModuleList(
            LieTransformerLayer(group, config) for _ in range(config.layers)
        )
        updates = config.layers - 1 if config.pose_updates else 0
        self.updates = nn.ModuleList(UpdateHead(config.dim, group.dim) for _ in range(updates))
        self.norm = nn.LayerNorm(config.dim)
        self.correction = CorrectionHead(config.dim, group.dim)

    @by_name()
    def forward(
        self,
        poses: Tensor,
        *,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        frozen: Tensor | None = None,
        bias: Tensor | None = None,
        neighbours: Tensor | None = None,
    ) -> LieTransformerOutput:
        """Invariant hidden states, and poses that move with the input.

        Args:
            poses: `[..., N, m, m]`, float32 or float64. Geometry runs in their dtype, the network
                in that of its parameters.
            mask: `[..., N]`, True = real token; the poses of padding may hold anything. Or
                `[..., N, N]`, True where token i may attend to token j, e.g. a causal mask.
            features: invariant features of the tokens, `[..., N, config.features]`.
            frozen: `[..., N]`, True = this token's pose stays as it is.
            bias: added to the logits (edge features), `[..., H, N, N]` where sizes of 1 broadcast,
                or `[N, N]` for all sets and heads.
            neighbours: `[..., N, k]`, the tokens that each one attends to, see `lie_attention`.
        Returns:
            `LieTransformerOutput(hidden, delta, poses, frames)`. Padding and frozen tokens have
            `delta = 0` and keep their pose.
        """
        require_tensors(
            features=features, mask=mask, frozen=frozen, bias=bias, neighbours=neighbours
        )
        require_set(self.group, poses)
        inputs.require_batches(poses, mask=(mask, 2), neighbours=(neighbours, 2), bias=(bias, 3))
        with island(poses, self.config.autocast):
            return self._forward(poses, features, mask, frozen, bias, neighbours)

    def _forward(
        self,
        poses: Tensor,
        features: Tensor | None,
        mask: Tensor | None,
        frozen: Tensor | None,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> LieTransformerOutput:
        tokens, pairs = split_mask(mask, poses, neighbours)
        g, tokens = inputs.admitted(self.group, poses, tokens, self.check_inputs)
        h = self._embed(g, features, tokens)
        moving = inputs.moving(tokens, frozen, poses)
        rel, scale = self._related(g, tokens, pairs, bias, neighbours)
        for i, layer in enumerate(self.layers):
            h = layer(h, rel, bias, neighbours)
            if i < len(self.updates):
                g = self._detach(self._move(g, self.updates[i](h), scale, moving)[0])
                rel, scale = self._related(g, tokens, pairs, bias, neighbours)
        h = self.norm(h)
        moved, delta = self._move(g, self.correction(h), scale, moving)
        if tokens is not None:
            moved = torch.where(tokens[..., None, None], moved, poses)
        return LieTransformerOutput(h, delta, moved, g)

    def _embed(self, poses: Tensor, features: Tensor | None, tokens: Tensor | None) -> Tensor:
        """The same vector for all tokens, and what their features add to it."""
        inputs.require_features(features, poses, self.config.features)
        h = self.h0.expand(*poses.shape[:-2], -1)
        if self.embed is None or features is None:
            return h
        if tokens is not None:
            features = torch.where(tokens[..., None], features, 0)
        return h + self.embed(features.to(self.h0.dtype))

    def _related(
        self,
        g: Tensor,
        tokens: Tensor | None,
        pairs: Tensor | None,
        bias: Tensor | None,
        neighbours: Tensor | None,
    ) -> tuple[Relations | DeferredRelations, Tensor | None]:
        """What layers need of the set, and the scales that w is divided by, `[..., 1, dim]`."""
        config, attention = self.config, cast(LieAttention, self.layers[0].attention)
        if keeps_relations(
            self.group,
            g,
            attention.weights(),
            chart=config.chart,
            dtype=self.h0.dtype,
            bias=bias,
            neighbours=neighbours,
            content=config.content,
            scaled=config.normalise,
        ):
            return self._relate(g, tokens, pairs, neighbours)
        rel = self._defer(g, tokens, pairs, neighbours)
        if not config.normalise:
            return rel, None
        chart, margin = self._chart_of_scales()
        scale = deferred_scales(self.group, rel._replace(margin=margin), chart, neighbours)
        return rel._replace(scale=scale), scale

    def _relate(
        self,
        g: Tensor,
        tokens: Tensor | None,
        pairs: Tensor | None,
        neighbours: Tensor | None,
    ) -> tuple[Relations, Tensor | None]:
        """Relations of the set, computed once, and the scales they were divided by."""
        group, config = self.group, self.config

        def restricted(chart: str, margin: float) -> Relations:
            rel = relate(group, g, g, chart, neighbours, config.exclude_self, margin)
            return inputs.restrict(rel, tokens, pairs, neighbours)

        rel = restricted(config.chart, self._margin())
        if not config.normalise:
            return rel, None
        chart, margin = self._chart_of_scales()
        scale = block_scales(group, rel if chart == config.chart else restricted(chart, margin))
        return Relations(divide(group, rel.coords, scale), rel.valid), scale

    def _defer(
        self,
        g: Tensor,
        tokens: Tensor | None,
        pairs: Tensor | None,
        neighbours: Tensor | None,
    ) -> DeferredRelations:
        """The set itself, whose relations every layer computes by blocks."""
        mask, queries = inputs.pairs_allowed(g, tokens, pairs, neighbours)
        return DeferredRelations(g, g, self.config.exclude_self, self._margin(), mask, queries)

    def _margin(self) -> float:
        own, config = self.group.chart_margin, self.config
        return own(config.chart) if config.chart_margin is None else config.chart_margin

    def _chart_of_scales(self) -> tuple[str, float]:
        """The chart in which the scales of a set are measured, and its margin.

        The logarithm grows without bound towards the cut of Aff(n), and a pair that crosses it is
        gone: a mean of squares must not hang on that. On other groups the charts are one.
        """
        group, chart = self.group, self.config.chart
        if group.is_global(chart) or not group.is_global(group.charts[-1]):
            return chart, self._margin()
        return group.charts[-1], 0.0

    def _move(
        self, g: Tensor, delta: Tensor, scale: Tensor | None, moving: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """`g exp(delta)` and delta, which is zero for tokens that do not move."""
        with island(g):
            delta = at_least_float32(delta, g)
            if scale is not None:
                delta = delta * scale
            if moving is not None:
                delta = torch.where(moving[..., None], delta, 0)
            step = self.group.exp(delta, chart=_output_chart(self.config))
            moved = self.group.compose(g, step)
        if moving is not None:
            moved = torch.where(moving[..., None, None], moved, g)
        return moved, delta

    def _detach(self, g: Tensor) -> Tensor:
        if not self.config.detach_rotations:
            return g
        if self.group.matrix_size == self.group.n:  # no column of translations
            return g.detach()
        return torch.cat([g[..., :-1].detach(), g[..., -1:]], dim=-1)


def _output_chart(config: LieTransformerConfig) -> str:
    return "polar" if config.output == "global" else "principal"
