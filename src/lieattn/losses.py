"""Losses between poses, with masks. All are unchanged when one element moves both sides."""

from __future__ import annotations

import torch
from torch import Tensor

from ._precision import at_least_float32, island
from .groups import Group


def algebra_loss(
    group: Group,
    delta: Tensor,
    poses: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    physical: bool = True,
) -> Tensor:
    r"""Mean of $|\delta_i - \log(g_i^{-1} g^*_i)|^2$: the correction against the one needed.

    Args:
        delta: `[..., dim]`, orthonormal coordinates as the model returns them.
        poses: what delta corrects, `[..., m, m]`.
        target: where it should lead, `[..., m, m]`, broadcasts to the poses.
        mask: `[...]`, True = counts.
        weights: `[K]`, a weight for each block.
        physical: measure in radians and logarithms of scale, else in orthonormal coordinates.
    Returns:
        A scalar. Elements whose target is off the principal chart do not count.
    """
    with island(delta):
        needed, valid = group.relation(poses, target)
        error = at_least_float32(delta, needed) - needed
        return _mean(_weighted(group, error, weights, physical), _both(mask, valid))


def geodesic_loss(
    group: Group,
    predicted: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    physical: bool = True,
) -> Tensor:
    r"""Mean of $|\log(\hat g^{-1} g^*)|^2$; where that has no logarithm, the chordal distance.

    Arguments as for `algebra_loss`, with predicted poses `[..., m, m]` in the place of delta.
    """
    with island(predicted):
        w, valid = group.relation(predicted, target)
        square = _weighted(group, w, weights, physical)
        return _mean(torch.where(valid, square, _chordal(group, predicted, target)), mask)


def chordal_loss(
    group: Group, predicted: Tensor, target: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Mean of $\|\hat g^{-1} g^* - I\|_F^2$: smooth everywhere, defined for every pair.

    On SO(n) and SE(n) it is $\|\hat g - g^*\|_F^2$.
    """
    with island(predicted):
        return _mean(_chordal(group, predicted, target), mask)


def gap_loss(logits: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of gap logits `[..., N]` against probabilities `[..., N]`.

    Args:
        logits: of a `GapHead`.
        target: what each token should get, e.g. 1/2 on each of the two beside the gap.
        mask: `[..., N]`, True = real token. A set without real tokens does not count.
    """
    logits = at_least_float32(logits, logits)
    real = None
    if mask is not None:
        logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
        target = torch.where(mask, target, 0)
        real = mask.any(-1)
    return _mean(-(target * logits.log_softmax(-1)).sum(-1), real)


def _weighted(group: Group, w: Tensor, weights: Tensor | None, physical: bool) -> Tensor:
    squares = group.block_sq_norms(group.to_physical(w) if physical else w)
    return squares.sum(-1) if weights is None else (squares * weights.to(squares)).sum(-1)


def _chordal(group: Group, predicted: Tensor, target: Tensor) -> Tensor:
    relative = group.relative(predicted, target)
    eye = torch.eye(group.matrix_size, dtype=relative.dtype, device=relative.device)
    return (relative - eye).square().sum((-2, -1))


def _both(mask: Tensor | None, valid: Tensor) -> Tensor:
    return valid if mask is None else valid & mask


def _mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over what counts; zero if nothing does."""
    if mask is None:
        return x.mean()
    mask = mask.expand(x.shape)
    return torch.where(mask, x, 0).sum() / mask.sum().clamp(min=1)
