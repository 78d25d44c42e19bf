"""Heads: invariant outputs from invariant hidden states."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._core.calls import by_name
from .._core.masks import require_flags
from .._core.tensors import require_tensors
from .._core.text import unknown

POOLINGS = ("mean", "sum", "max")


class CorrectionHead(nn.Sequential):
    """The correction `delta = W_2 GELU(W_1 h + b_1) + b_2`, `[..., N, d]` to `[..., N, dim G]`."""

    def __init__(self, dim: int, coordinates: int) -> None:
        super().__init__(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, coordinates))


class UpdateHead(nn.Sequential):
    """A step between layers, `[..., N, d]` to `[..., N, dim G]`, small at first.

    Poses start near those of the data, and training decides how far they move.
    """

    def __init__(self, dim: int, coordinates: int) -> None:
        linear = nn.Linear(dim, coordinates)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        super().__init__(nn.LayerNorm(dim), linear)


class GapHead(nn.Module):
    """A logit for each token, `[..., N]`, that it borders the gap.

    Padding gets the least number of the dtype, so that a softmax gives it zero.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.linear = nn.Linear(dim, 1)

    @by_name()
    def forward(self, h: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Logits `[..., N]` of states `[..., N, d]`; mask `[..., N]`, True = real token."""
        _require_width(h, self.dim)
        logits = self.linear(h).squeeze(-1)
        if mask is None:
            return logits
        _require_mask(mask, h)
        return logits.masked_fill(~mask, torch.finfo(logits.dtype).min)


class InvariantReadout(nn.Module):
    """One invariant vector a set, `[..., out]`: hidden states pooled, then a two-layer network.

    Args:
        dim: width of the hidden states.
        out: width of the result.
        pooling: "mean", "sum" or "max" over the real tokens. A set without any pools to zeros.

    >>> InvariantReadout(32, 10)(torch.zeros(2, 7, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, dim: int, out: int, pooling: str = "mean") -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ValueError(unknown("pooling", pooling, POOLINGS))
        self.dim, self.pooling = dim, pooling
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, out))

    @by_name()
    def forward(self, h: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """`[..., out]` of states `[..., N, d]`; mask `[..., N]`, True = real token."""
        _require_width(h, self.dim)
        if mask is None:
            mask = torch.ones(h.shape[:-1], dtype=torch.bool, device=h.device)
        _require_mask(mask, h)
        real = mask[..., None]
        if self.pooling == "max" and h.shape[-2]:
            pooled = h.masked_fill(~real, torch.finfo(h.dtype).min).amax(-2)
            return self.mlp(torch.where(real.any(-2), pooled, 0))
        pooled = torch.where(real, h, 0).sum(-2)
        if self.pooling == "mean":
            pooled = pooled / real.sum(-2).clamp(min=1)
        return self.mlp(pooled)


def _require_width(h: Tensor, dim: int) -> None:
    require_tensors(h=h)
    if not h.ndim or h.shape[-1] != dim:
        raise ValueError(
            f"h must have shape [..., N, {dim}], got {list(h.shape)}. The first argument of the "
            "head is the width of the hidden states, config.dim of a model."
        )


def _require_mask(mask: Tensor, h: Tensor) -> None:
    require_tensors(h=h, mask=mask)
    require_flags("mask", mask, h.shape[:-1], "for a real token")
