"""Controls: the paper's vector tokens (model A), and (g, v) pairs, a payload on every token."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..._core.calls import by_name
from ..._core.masks import both, pair_mask, split_mask
from ..._core.tensors import island, require_tensors
from ...geometry.pairs import require_set
from ...groups import Group, get_group
from ...nn import inputs
from ...nn.config import LieTransformerConfig
from ...nn.heads import CorrectionHead
from ...nn.pretrained import Pretrained
from ...nn.transformer import (
    Encoded,
    FeedForward,
    LieTransformer,
    LieTransformerOutput,
    correction,
    decode,
)
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


class VectorLayer(nn.Module):
    """A pre-norm layer with scaled dot-product attention."""

    def __init__(self, config: LieTransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(config.dim)
        self.qkv = nn.Linear(config.dim, 3 * config.dim)
        self.out = nn.Linear(config.dim, config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.feed_forward = FeedForward(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, h: Tensor, allowed: Tensor | None) -> Tensor:
        qkv = self.qkv(self.attention_norm(h)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.movedim(-3, 0).transpose(-3, -2)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        h = h + self.dropout(self.out(mixed.transpose(-3, -2).flatten(-2)))
        return h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))


class VectorTransformer(Pretrained, nn.Module):
    """The same transformer on vector tokens: absolute features, scaled dot-product attention.

    It has no invariant and is not equivariant: the control that shows what the group token buys.
    Of the config it takes `dim`, `heads`, `layers`, `features`, `dropout` and `autocast`.
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        super().__init__()
        group = get_group(group)
        self.group, self.config = group, LieTransformerConfig.or_default(config)
        dim = self.config.dim
        self.check_inputs = True
        width = absolute_features(group, group.identity(1)).shape[-1]
        self.embed = nn.Linear(width, dim)
        features = self.config.features
        self.embed_features = nn.Linear(features, dim) if features else None
        self.layers = nn.ModuleList(VectorLayer(self.config) for _ in range(self.config.layers))
        self.norm = nn.LayerNorm(dim)
        self.correction = CorrectionHead(dim, group.dim)

    @by_name()
    def forward(
        self, poses: Tensor, *, mask: Tensor | None = None, features: Tensor | None = None
    ) -> LieTransformerOutput:
        """As `LieTransformer.forward`."""
        encoded = self.encode(poses, mask=mask, features=features)
        return decode(self.group, poses, encoded)

    def encode(
        self, poses: Tensor, *, mask: Tensor | None = None, features: Tensor | None = None
    ) -> Encoded:
        """As `LieTransformer.encode`."""
        require_tensors(features=features, mask=mask)
        require_set(self.group, poses)
        inputs.require_batches(poses, mask=(mask, 2))
        inputs.require_features(features, poses, self.config.features)
        with island(poses, self.config.autocast):
            tokens, pairs = split_mask(mask, poses)
            g, tokens = inputs.admitted(self.group, poses, tokens, self.check_inputs)
            h = self.embed(absolute_features(self.group, g).to(self.embed.weight.dtype))
            if self.embed_features is not None and features is not None:
                if tokens is not None:  # those of padding may hold anything
                    features = torch.where(tokens[..., None], features, 0)
                h = h + self.embed_features(features.to(h.dtype))
            batch, n = poses.shape[:-3], poses.shape[-3]
            given = (None if x is None else pair_mask(x, batch, n) for x in (tokens, pairs))
            allowed = both(*given)
            for layer in self.layers:
                h = layer(h, allowed)
            h = self.norm(h)
            delta = correction(self.correction(h), g, None, tokens)
            return Encoded(h, delta, g, None, tokens, tokens)


class PairTransformer(LieTransformer):
    """Tokens `(g, v)` in G x R^d: a payload on each, which enters the state and the score.

    The relative pose scores as in `LieTransformer`, and the hidden states, which start from the
    payload, add a dot product to it. With invariant payloads (`config.features > 0`, passed as
    `features`) it is equivariant. Without any the payload is the pose itself as a flat vector,
    which is all that a set of poses has to offer, and equivariance is lost.
    """

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        group, config = (
            get_group(group),
            replace(LieTransformerConfig.or_default(config), content=True),
        )
        super().__init__(group, config)
        self.payload = None
        if not config.features:
            width = absolute_features(group, group.identity(1)).shape[-1]
            self.payload = nn.Linear(width, config.dim)

    def _embed(self, poses: Tensor, features: Tensor | None, tokens: Tensor | None) -> Tensor:
        h = super()._embed(poses, features, tokens)
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
        known = torch.where(visible[..., None, None], poses, torch.eye(poses.shape[-1]).to(poses))
        local = self.group.relative(there, known)
        out = super().forward(local, missing=missing, mask=mask, features=features)
        moved = self.group.compose(there, out.poses)
        answers = torch.where(missing[..., None, None], moved, poses)
        frames, shifted = (self.group.compose(there, x) for x in (out.frames, out.moved))
        analogies = out.analogies
        if analogies is not None:
            analogies = self.group.compose(there.unsqueeze(-3), analogies)
        return out._replace(poses=answers, frames=frames, moved=shifted, analogies=analogies)


class PairCompletionModel(CompletionModel):
    """Completion with `(g, v)` tokens: the ablation that the paper argues but does not run."""

    backbone = PairTransformer


BASELINE = Baseline("A", "vector tokens", VectorInfillModel, absolute=True)
