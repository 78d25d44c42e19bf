"""Scores of keys so far away that the squares of their distances do not fit float32.

Distances of 1e10 and more differ, if they differ at all in float32, by so much that a query has all
of its weight on the nearest key. The same is true after all of its keys are brought nearer by one
factor, so that is what quadratic scores are given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.tensors import readable
from ..geometry.pairs import Relations
from .request import Logits

FAR = 1e10
FARTHEST = 1e17  # keys beyond it have no weight: the nearest one is at most at FAR


def logits_within_range(
    rel: Relations, score: Logits, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """`score(rel.coords)`, with finite squares and without NaN in its derivatives.

    Rows whose nearest key is beyond `FAR` have one weight, of 1, and the logits no gradient.
    """
    coords = rel.coords
    if not getattr(score, "squares", False) or coords.dtype == torch.float64 or not coords.numel():
        return score(coords)
    if readable(coords) and coords.detach().abs().amax() <= FAR:
        return score(coords)
    pairs = _pairs(mask, bias)
    if pairs is None or pairs.dim() < 3:
        return _brought_near(rel, score, pairs)
    # Heads with masks of their own have nearest keys of their own.
    own = [_brought_near(rel, score, of_head) for of_head in pairs.unbind(-3)]
    if len(own) == 1:
        return own[0]
    return torch.stack([x[..., min(h, x.shape[-3] - 1), :, :] for h, x in enumerate(own)], dim=-3)


def _pairs(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Pairs that a mask and a bias leave."""
    if bias is None:
        return mask
    left = bias != -torch.inf
    return left if mask is None else left & mask


def _brought_near(rel: Relations, score: Logits, pairs: Tensor | None) -> Tensor:
    coords = rel.coords
    allowed = rel.valid if pairs is None else rel.valid & pairs
    size = torch.where(allowed, coords.detach().abs().amax(-1), torch.inf)
    nearest = size.amin(-1, keepdim=True)
    scale = torch.where(nearest.isfinite(), nearest / FAR, 1).clamp(min=1)
    logits = score((coords / scale[..., None]).clamp(-FARTHEST, FARTHEST))
    far = (scale > 1).unsqueeze(-3)
    return torch.where(far, logits.detach(), logits)
