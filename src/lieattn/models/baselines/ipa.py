"""A rival on SE(3): the same transformer with invariant point attention, a published layer."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ..._core.errors import RunError
from ...groups import SE3, Group
from ...nn.config import LieTransformerConfig
from ...nn.pairing import Pairing
from ...nn.transformer import Layer, Pairs, PoseTransformer
from ..infill.model import InfillModel
from .base import Baseline


class PointLayer(Layer):
    """A layer with invariant point attention."""

    attention: nn.Module

    def __init__(self, config: LieTransformerConfig) -> None:
        attention = _layer()(
            dim=config.dim,
            heads=config.heads,
            scalar_key_dim=config.dim // config.heads,
            scalar_value_dim=config.dim // config.heads,
            require_pairwise_repr=False,
        )
        super().__init__(config, attention=attention)

    def attend(self, h: Tensor, *pairs: Any) -> Tensor:
        """The update from poses and a mask of real tokens."""
        poses, mask = pairs
        # It multiplies rows by rotations, where poses multiply columns.
        frames = {"rotations": poses[..., :3, :3].mT, "translations": poses[..., :3, 3]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an autocast that it spells the old way
            return self.attention(h, **frames, mask=mask)


class PointTransformer(PoseTransformer):
    """`LieTransformer` with invariant point attention in the place of Lie-algebra attention."""

    def __init__(self, group: Group | str, config: LieTransformerConfig) -> None:
        super().__init__(group, config)
        if self.group is not SE3:
            raise RunError(f"model IPA knows SE(3), not {self.group}.")
        self.check_inputs = False
        self.h0 = nn.Parameter(torch.randn(config.dim) * config.dim**-0.5)
        self.embed = nn.Linear(config.features, config.dim)
        self._make_layers(lambda: PointLayer(config))

    def _embed(self, poses: Tensor, features: Tensor | None) -> Tensor:
        return self.h0 + self.embed(features)

    def _pairs(self, g: Tensor, pairing: Pairing) -> Pairs:
        tokens = pairing.tokens
        return (g, torch.ones(g.shape[:-2]).bool() if tokens is None else tokens), None


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
