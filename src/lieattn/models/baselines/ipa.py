"""A rival on SE(3): the same transformer with invariant point attention, a published layer."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ..._core.errors import RunError
from ...groups import SE3, Group, get_group
from ...nn.config import LieTransformerConfig
from ...nn.heads import CorrectionHead
from ...nn.pretrained import Pretrained
from ...nn.transformer import Encoded, FeedForward, LieTransformerOutput, correction, decode
from ..infill.model import InfillModel
from .base import Baseline


class PointLayer(nn.Module):
    """A pre-norm layer with invariant point attention."""

    def __init__(self, config: LieTransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.dim)
        self.attention: Any = _layer()(
            dim=config.dim,
            heads=config.heads,
            scalar_key_dim=config.dim // config.heads,
            scalar_value_dim=config.dim // config.heads,
            require_pairwise_repr=False,
        )
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.feed_forward = FeedForward(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, h: Tensor, poses: Tensor, mask: Tensor) -> Tensor:
        # It multiplies rows by rotations, where poses multiply columns.
        frames = {"rotations": poses[..., :3, :3].mT, "translations": poses[..., :3, 3]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an autocast that it spells the old way
            update = self.attention(self.attention_norm(h), **frames, mask=mask)
        h = h + self.dropout(update)
        return h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))


class PointTransformer(Pretrained, nn.Module):
    """`LieTransformer` with invariant point attention in the place of Lie-algebra attention."""

    def __init__(self, group: Group | str, config: LieTransformerConfig) -> None:
        super().__init__()
        self.group, self.config = get_group(group), config
        if self.group is not SE3:
            raise RunError(f"model IPA knows SE(3), not {self.group}.")
        self.check_inputs = False
        self.h0 = nn.Parameter(torch.randn(config.dim) * config.dim**-0.5)
        self.embed = nn.Linear(config.features, config.dim)
        self.layers = nn.ModuleList(PointLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.correction = CorrectionHead(config.dim, self.group.dim)

    def forward(
        self, poses: Tensor, *, mask: Tensor | None = None, features: Tensor
    ) -> LieTransformerOutput:
        """As `LieTransformer.forward`."""
        return decode(self.group, poses, self.encode(poses, mask=mask, features=features))

    def encode(self, poses: Tensor, *, mask: Tensor | None = None, features: Tensor) -> Encoded:
        """As `LieTransformer.encode`."""
        there = torch.ones(poses.shape[:-2], dtype=torch.bool) if mask is None else mask
        poses = torch.where(there[..., None, None], poses, torch.eye(4).to(poses))
        h = self.h0 + self.embed(features)
        for layer in self.layers:
            h = layer(h, poses, there)
        h = self.norm(h)
        delta = correction(self.correction(h), poses, None, there)
        return Encoded(h, delta, poses, None, there, there)


class PointInfillModel(InfillModel):
    """Hidden poses found with invariant point attention."""

    backbone = PointTransformer


def _layer() -> Any:
    try:
        from invariant_point_attention import InvariantPointAttention
    except ImportError:
        raise RunError(
            "model IPA needs invariant-point-attention: pip install 'lieattn[bench]'."
        ) from None
    return InvariantPointAttention


BASELINE = Baseline(
    "IPA",
    "invariant point attention",
    PointInfillModel,
    groups=("SE3",),
    requires="invariant-point-attention",
)
