"""`LieTransformer`: a plain pre-norm transformer whose tokens are group elements."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from .._core.calls import by_name
from .._core.masks import split_mask
from .._core.pytree import exportable
from .._core.tensors import at_least_float32, island, require_tensors
from ..geometry.pairs import DeferredRelations, Relations, require_set
from ..groups import Group, get_group
from . import inputs
from .attention import LieAttention
from .config import LieTransformerConfig
from .heads import CorrectionHead, UpdateHead
from .pairing import Gather, Pairing
from .pretrained import Pretrained


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
        gather: Gather | None,
    ) -> Tensor:
        normed = self.attention_norm(h)
        keys = None if gather is None else gather.gather(normed, -2)
        update = self.attention(normed, rel, bias=bias, neighbours=neighbours, context=keys)
        h = h + self.dropout(update)
        return h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))


class Encoded(NamedTuple):
    """What a transformer finds before poses move."""

    hidden: Tensor  # [..., N, d]
    delta: Tensor  # [..., N, dim], 0 for tokens that do not move
    frames: Tensor  # [..., N, m, m], what delta corrects; the identity in padding
    scales: Tensor | None  # [..., 1, dim], what delta was multiplied by, if by anything
    tokens: Tensor | None  # [..., N], True = real token; None for all
    moving: Tensor | None  # [..., N], True = its pose may change; None for all


def moved(group: Group, poses: Tensor, delta: Tensor, moving: Tensor | None, chart: str) -> Tensor:
    """`g exp(delta)` for tokens that move."""
    with island(poses):
        found = group.compose(poses, group.exp(delta, chart=chart))
    return found if moving is None else torch.where(moving[..., None, None], found, poses)


def decode(
    group: Group, poses: Tensor, encoded: Encoded, chart: str = "principal"
) -> LieTransformerOutput:
    """The corrected poses; padding keeps its own."""
    hidden, delta, frames, _, tokens, moving = encoded
    found = moved(group, frames, delta, moving, chart)
    if tokens is not None:
        found = torch.where(tokens[..., None, None], found, poses)
    return LieTransformerOutput(hidden, delta, found, frames)


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
        for chart in {config.chart, self.output_chart}:
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
                `[..., N, N]`, True where token i may attend to token j. Causal masks
                need `normalise=False`.
            features: invariant features of the tokens, `[..., N, config.features]`.
            frozen: `[..., N]`, True = this token's pose stays as it is.
            bias: added to the logits (edge features), `[..., H, N, N]` where sizes of 1 broadcast,
                or `[N, N]` for all sets and heads.
            neighbours: `[..., N, k]`, the tokens that each one attends to, see `lie_attention`.
        Returns:
            `LieTransformerOutput(hidden, delta, poses, frames)`. Padding and frozen tokens have
            `delta = 0` and keep their pose.
        """
        encoded = self.encode(
            poses,
            mask=mask,
            features=features,
            frozen=frozen,
            bias=bias,
            neighbours=neighbours,
        )
        return decode(self.group, poses, encoded, self.output_chart)

    def encode(
        self,
        poses: Tensor,
        *,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        frozen: Tensor | None = None,
        bias: Tensor | None = None,
        neighbours: Tensor | None = None,
        gather: Gather | None = None,
    ) -> Encoded:
        """States and corrections of all tokens, of which `forward` makes poses.

        Args:
            poses, mask, features, frozen, bias, neighbours: as of `forward`.
            gather: for sets of which this process holds some tokens, see `distributed`.
        """
        require_tensors(
            features=features, mask=mask, frozen=frozen, bias=bias, neighbours=neighbours
        )
        require_set(self.group, poses)
        inputs.require_batches(poses, mask=(mask, 2), neighbours=(neighbours, 2), bias=(bias, 3))
        with island(poses, self.config.autocast):
            # A process may hold nothing but padding.
            tokens, pairs = (mask, None) if gather else split_mask(mask, poses, neighbours)
            if self.config.normalise and neighbours is None:
                inputs.require_not_causal(pairs, bias)
            g, tokens = inputs.admitted(self.group, poses, tokens, self.check_inputs)
            h = self._embed(g, features, tokens)
            moving = inputs.moving(tokens, frozen, poses)
            pairing = Pairing(self.group, self.config, tokens, pairs, neighbours, gather)
            weights = cast(LieAttention, self.layers[0].attention).weights()
            rel, scales = pairing.related(g, weights, self.h0.dtype, bias)
            for i, layer in enumerate(self.layers):
                h = layer(h, rel, bias, neighbours, gather)
                if i < len(self.updates):
                    step = correction(self.updates[i](h), g, scales, moving)
                    g = self._detach(moved(self.group, g, step, moving, self.output_chart))
                    rel, scales = pairing.related(g, weights, self.h0.dtype, bias)
            h = self.norm(h)
            delta = correction(self.correction(h), g, scales, moving)
            return Encoded(h, delta, g, scales, tokens, moving)

    @property
    def output_chart(self) -> str:
        """The chart of delta."""
        return "polar" if self.config.output == "global" else "principal"

    def _embed(self, poses: Tensor, features: Tensor | None, tokens: Tensor | None) -> Tensor:
        """The same vector for all tokens, and what their features add to it."""
        inputs.require_features(features, poses, self.config.features)
        h = self.h0.expand(*poses.shape[:-2], -1)
        if self.embed is None or features is None:
            return h
        if tokens is not None:
            features = torch.where(tokens[..., None], features, 0)
        return h + self.embed(features.to(self.h0.dtype))

    def _detach(self, g: Tensor) -> Tensor:
        if not self.config.detach_rotations:
            return g
        if self.group.matrix_size == self.group.n:  # no column of translations
            return g.detach()
        return torch.cat([g[..., :-1].detach(), g[..., -1:]], dim=-1)


def correction(delta: Tensor, g: Tensor, scales: Tensor | None, moving: Tensor | None) -> Tensor:
    """What a head gives, in units of the set, and zero for tokens that do not move."""
    with island(g):
        delta = at_least_float32(delta, g)
        if scales is not None:
            delta = delta * scales
        return delta if moving is None else torch.where(moving[..., None], delta, 0)
