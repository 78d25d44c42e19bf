"""`LieTransformer`: a plain pre-norm transformer whose tokens are group elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from .._core.calls import by_name
from .._core.masks import split_mask
from .._core.pytree import exportable
from .._core.tensors import at_least_float32, island, require_tensors
from ..geometry.pairs import require_set
from ..groups import Group, get_group
from . import inputs
from .attention import LieAttention
from .config import LieTransformerConfig
from .heads import CorrectionHead, UpdateHead
from .pairing import Gather, Pairing
from .pretrained import Pretrained


@exportable
class LieTransformerOutput(NamedTuple):
    """An invariant state, an invariant correction and the corrected pose of every token.

    With pose updates delta corrects `frames`, not the input. Losses of delta need `frames`.
    """

    hidden: Tensor  # [..., N, d], invariant
    delta: Tensor  # [..., N, dim], invariant correction in orthonormal coordinates
    poses: Tensor  # [..., N, m, m], frames exp(delta), equivariant
    frames: Tensor  # [..., N, m, m], what delta corrects: the input, or where updates moved it


class FeedForward(nn.Sequential):
    """Two linear layers of hidden width 4d with a GELU between them."""

    def __init__(self, dim: int) -> None:
        super().__init__(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))


class Layer(nn.Module):
    """`h + Attn(LN(h))`, then `h + FFN(LN(h))`, Section 4.2; subclasses define `attend`.

    The modules of the attention are given by name, in the order of their parameters.
    """

    def __init__(self, config: LieTransformerConfig, **attention: nn.Module) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.dim)
        for name, module in attention.items():
            self.add_module(name, module)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.feed_forward = FeedForward(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, h: Tensor, *pairs: Any) -> Tensor:
        """Updates of states `[..., N, d]`; `pairs` is what `attend` takes besides states."""
        h = h + self.dropout(self.attend(self.attention_norm(h), *pairs))
        return h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))

    def attend(self, h: Tensor, *pairs: Any) -> Tensor:
        """The update by other tokens, `[..., N, d]`."""
        raise NotImplementedError


class LieTransformerLayer(Layer):
    """A layer with Lie-algebra attention."""

    attention: LieAttention

    def __init__(self, group: Group, config: LieTransformerConfig) -> None:
        shared = ("chart", "positive", "directed", "content", "autocast", "prune")
        options = {name: getattr(config, name) for name in shared}
        # The transformer leaves the diagonal out once for all layers.
        attention = LieAttention(
            group, config.dim, config.heads, config.score, exclude_self=False, **options
        )
        super().__init__(config, attention=attention)

    def attend(self, h: Tensor, *pairs: Any) -> Tensor:
        """The update from relations, a bias and neighbours, with keys of all processes."""
        rel, bias, neighbours, gather = pairs
        keys = None if gather is None else gather.gather(h, -2)
        return self.attention(h, rel, bias=bias, neighbours=neighbours, context=keys)


class Encoded(NamedTuple):
    """States and corrections, from which `decode` computes poses."""

    hidden: Tensor  # [..., N, d]
    delta: Tensor  # [..., N, dim], 0 for tokens that do not move
    frames: Tensor  # [..., N, m, m], what delta corrects; the identity in padding
    scales: Tensor | None  # [..., 1, dim], factors of delta; None for 1
    tokens: Tensor | None  # [..., N], True = real token; None for all
    moving: Tensor | None  # [..., N], True = its pose may change; None for all


def moved(group: Group, poses: Tensor, delta: Tensor, moving: Tensor | None, chart: str) -> Tensor:
    """`g exp(delta)` for tokens that move."""
    with island(poses):
        found = group.compose(poses, group.exp(delta, chart=chart))
    return found if moving is None else torch.where(moving[..., None, None], found, poses)


def decode(model: PoseTransformer, poses: Tensor, encoded: Encoded) -> LieTransformerOutput:
    """The corrected poses; padding keeps its own."""
    hidden, delta, frames, _, tokens, moving = encoded
    found = moved(model.group, frames, delta, moving, model.output_chart)
    if tokens is not None:
        found = torch.where(tokens[..., None, None], found, poses)
    return LieTransformerOutput(hidden, delta, found, frames)


Pairs = tuple[tuple[Any, ...], Tensor | None]  # what layers take, and scales of delta


class PoseTransformer(Pretrained, nn.Module):
    """What transformers of poses share: layers, pose updates between them, and heads.

    A subclass makes what embeds tokens, then calls `_make_layers`, in the order of checkpoints. It
    defines `_embed` and `_pairs`.
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        super().__init__()
        self.group, self.config = get_group(group), LieTransformerConfig.or_default(config)
        self.check_inputs = True

    def _make_layers(self, make: Callable[[], Layer], updates: int = 0) -> None:
        """Layers, and the modules that follow them in a checkpoint."""
        dim, coordinates = self.config.dim, self.group.dim
        self.layers = nn.ModuleList(make() for _ in range(self.config.layers))
        self.updates = nn.ModuleList(UpdateHead(dim, coordinates) for _ in range(updates))
        self.norm = nn.LayerNorm(dim)
        self.correction = CorrectionHead(dim, coordinates)

    @property
    def output_chart(self) -> str:
        """The chart of delta."""
        return "principal"

    @by_name()
    def forward(
        self, poses: Tensor, *, mask: Tensor | None = None, features: Tensor | None = None
    ) -> LieTransformerOutput:
        """As `LieTransformer.forward`."""
        return decode(self, poses, self.encode(poses, mask=mask, features=features))

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
        """States and corrections of all tokens, from which `forward` computes poses.

        Args:
            poses, mask, features, frozen, bias, neighbours: as of `LieTransformer.forward`.
            gather: for sets of which this process holds some tokens, see `distributed`.
        """
        require_tensors(features=features, mask=mask, frozen=frozen)
        require_tensors(bias=bias, neighbours=neighbours)
        require_set(self.group, poses)
        inputs.require_batches(poses, mask=(mask, 2), neighbours=(neighbours, 2), bias=(bias, 3))
        inputs.require_features(features, poses, self.config)
        with island(poses, self.config.autocast):
            # A process may hold nothing but padding.
            tokens, pairs = (mask, None) if gather else split_mask(mask, poses, neighbours)
            g, tokens = inputs.admitted(self.group, poses, tokens, self.check_inputs)
            if features is not None and tokens is not None:  # those of padding may hold anything
                features = torch.where(tokens[..., None], features, 0)
            h = self._embed(g, features)
            moving = inputs.moving(tokens, frozen, poses)
            pairing = Pairing(self.group, self.config, tokens, pairs, neighbours, gather, bias)
            related, scales = self._pairs(g, pairing)
            for i, layer in enumerate(self.layers):
                h = layer(h, *related)
                if i < len(self.updates):
                    step = correction(self.updates[i](h), g, scales, moving)
                    g = self._detach(moved(self.group, g, step, moving, self.output_chart))
                    related, scales = self._pairs(g, pairing)
            h = self.norm(h)
            delta = correction(self.correction(h), g, scales, moving)
            return Encoded(h, delta, g, scales, tokens, moving)

    def _embed(self, poses: Tensor, features: Tensor | None) -> Tensor:
        """The first states of tokens, `[..., N, d]`."""
        raise NotImplementedError

    def _pairs(self, g: Tensor, pairing: Pairing) -> Pairs:
        """What layers take besides states, and the scales that delta is multiplied by."""
        raise NotImplementedError

    def _detach(self, g: Tensor) -> Tensor:
        if not self.config.detach_rotations:
            return g
        if self.group.matrix_size == self.group.n:  # no column of translations
            return g.detach()
        return torch.cat([g[..., :-1].detach(), g[..., -1:]], dim=-1)


class LieTransformer(PoseTransformer):
    r"""Invariant features and equivariant poses from a set of poses, Section 4 of the paper.

    Every token starts from the same learned vector. Poses enter through
    $w_{ij} = \log(g_i^{-1} g_j)$ only. It is computed once and shared by the layers; for sets too
    large to keep it, each layer computes it in blocks. The output pose is $g_i \exp(\delta_i)$.

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
        super().__init__(group, config)
        group, config = self.group, self.config
        for chart in {config.chart, self.output_chart}:
            group.chart_blocks(chart)  # raises where the group does not have it
        self.h0 = nn.Parameter(torch.randn(config.dim) * config.dim**-0.5)
        self.embed = nn.Linear(config.features, config.dim) if config.features else None
        updates = config.layers - 1 if config.pose_updates else 0
        self._make_layers(lambda: LieTransformerLayer(group, config), updates)

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
                `[..., N, N]`, True where token i may attend to token j. Causal masks need
                `normalise=False`.
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
            poses, mask=mask, features=features, frozen=frozen, bias=bias, neighbours=neighbours
        )
        return decode(self, poses, encoded)

    @property
    def output_chart(self) -> str:
        """The chart of delta."""
        return "polar" if self.config.output == "global" else "principal"

    def _embed(self, poses: Tensor, features: Tensor | None) -> Tensor:
        """The same vector for all tokens, and what their features add to it."""
        h = self.h0.expand(*poses.shape[:-2], -1)
        if self.embed is None or features is None:
            return h
        return h + self.embed(features.to(self.h0.dtype))

    def _pairs(self, g: Tensor, pairing: Pairing) -> Pairs:
        if self.config.normalise and pairing.neighbours is None:
            inputs.require_not_causal(pairing.pairs, pairing.bias)
        weights = cast(LieTransformerLayer, self.layers[0]).attention.weights()
        rel, scales = pairing.related(g, weights, self.h0.dtype)
        return (rel, pairing.bias, pairing.neighbours, pairing.gather), scales


def correction(delta: Tensor, g: Tensor, scales: Tensor | None, moving: Tensor | None) -> Tensor:
    """The output of a head in units of the set, zero for tokens that do not move."""
    with island(g):
        delta = at_least_float32(delta, g)
        if scales is not None:
            delta = delta * scales
        return delta if moving is None else torch.where(moving[..., None], delta, 0)
