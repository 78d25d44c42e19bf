"""Controls: the paper's vector tokens (model A), and (g, v) pairs, a payload on every token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..._core.calls import by_name
from ..._core.masks import without_padding
from ...groups import Group
from ...nn.config import LieTransformerConfig
from ...nn.pairing import Pairing
from ...nn.transformer import Layer, LieTransformer, Pairs, PoseTransformer
from ..completion import CompletionModel
from ..infill.features import mean_position
from ..infill.model import InfillModel, InfillOutput
from .base import Baseline


def absolute_features(group: Group, poses: Tensor) -> Tensor:
    """Poses as flat vectors, `[..., N, F]`, the paper's features of model A.

    SO(2) and SE(2) give (cos, sin), other groups the entries of the linear part by rows; then the
    translation. SO(3) has 9, Aff(2) 6.

    >>> import lieattn as la
    >>> absolute_features(la.SE2, la.SE2.from_xy_theta(torch.tensor([[3.0, 4.0, 0.0]])))
    tensor([[1., 0., 3., 4.]])
    """
    size = group.n
    linear = poses[..., :size, :size]
    planar = group.name in ("SO2", "SE2")
    flat = linear[..., 0] if planar else linear.flatten(-2)
    if group.matrix_size == size:
        return flat
    return torch.cat([flat, poses[..., :size, size]], dim=-1)


def absolute_width(group: Group) -> int:
    """How many numbers `absolute_features` gives for a pose."""
    return absolute_features(group, group.identity()).shape[-1]


class VectorLayer(Layer):
    """A layer with scaled dot-product attention."""

    qkv: nn.Linear
    out: nn.Linear

    def __init__(self, config: LieTransformerConfig) -> None:
        dim = config.dim
        super().__init__(config, qkv=nn.Linear(dim, 3 * dim), out=nn.Linear(dim, dim))
        self.heads = config.heads

    def attend(self, h: Tensor, *pairs: Any) -> Tensor:
        """The update from tokens that a mask `[..., 1, N, N]` allows, None for all."""
        (allowed,) = pairs
        qkv = self.qkv(h).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.movedim(-3, 0).transpose(-3, -2)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out(mixed.transpose(-3, -2).flatten(-2))


class VectorTransformer(PoseTransformer):
    """The same transformer on vector tokens: absolute features, scaled dot-product attention.

    It is not equivariant: the control that shows what tokens in the group contribute.
    Of the config it takes `dim`, `heads`, `layers`, `features`, `dropout` and `autocast`.
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        super().__init__(group, config)
        config = self.config
        self.embed = nn.Linear(absolute_width(self.group), config.dim)
        features = config.features
        self.embed_features = nn.Linear(features, config.dim) if features else None
        self._make_layers(lambda: VectorLayer(config))

    def _embed(self, poses: Tensor, features: Tensor | None) -> Tensor:
        h = self.embed(absolute_features(self.group, poses).to(self.embed.weight.dtype))
        if self.embed_features is None or features is None:
            return h
        return h + self.embed_features(features.to(h.dtype))

    def _pairs(self, g: Tensor, pairing: Pairing) -> Pairs:
        return pairing.allowed(g)[:1], None


class PairTransformer(LieTransformer):
    """Tokens `(g, v)` in G x R^d, whose payload v enters the state and the score.

    Relative poses score as in `LieTransformer`. Hidden states start from the payload and add a dot
    product to the score. The model is equivariant with invariant payloads (`config.features > 0`,
    passed as `features`). Without features the payload is the pose as a flat vector, and the model
    is not equivariant.
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        config = replace(LieTransformerConfig.or_default(config), content=True)
        super().__init__(group, config)
        width = absolute_width(self.group)
        self.payload = None if config.features else nn.Linear(width, config.dim)

    def _embed(self, poses: Tensor, features: Tensor | None) -> Tensor:
        h = super()._embed(poses, features)
        if self.payload is None:
            return h
        return h + self.payload(absolute_features(self.group, poses).to(h.dtype))


class VectorCompletionModel(CompletionModel):
    """The paper's model A: completion with vector tokens.

    >>> import lieattn as la
    >>> sum(p.numel() for p in VectorCompletionModel(la.SE2).parameters())
    39524
    """

    backbone = VectorTransformer


class VectorInfillModel(InfillModel):
    """Hidden poses found by vector tokens: `InfillModel` without the group tokens.

    Positions are taken from the mean of the visible ones, so that it need not learn where the
    origin is; other motions change its answers.
    """

    backbone = VectorTransformer

    @by_name(hidden="missing=")
    def forward(
        self,
        poses: Tensor,
        *,
        missing: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
    ) -> InfillOutput:
        """As `InfillModel.forward`."""
        if self.group.matrix_size == self.group.n:  # no positions
            return super().forward(poses, missing=missing, mask=mask, features=features)
        visible = ~missing if mask is None else mask & ~missing
        mean = mean_position(poses, visible)
        there = self.group.identity(*mean.shape[:-1]).to(poses)
        there[..., :-1, -1] = mean
        local = self.group.relative(there, without_padding(self.group, poses, visible))
        out = super().forward(local, missing=missing, mask=mask, features=features)
        found, frames, moved = (
            self.group.compose(there, x) for x in (out.poses, out.frames, out.moved)
        )
        answers = torch.where(missing[..., None, None], found, poses)
        analogies = out.analogies
        if analogies is not None:
            analogies = self.group.compose(there.unsqueeze(-3), analogies)
        return out._replace(poses=answers, frames=frames, moved=moved, analogies=analogies)


class PairCompletionModel(CompletionModel):
    """Completion with `(g, v)` tokens: the ablation that the paper argues but does not run."""

    backbone = PairTransformer


BASELINE = Baseline("A", "vector tokens", VectorInfillModel, absolute=True)
