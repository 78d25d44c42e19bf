"""Losses between poses, with masks. All are invariant under an element that moves both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ._core.masks import require_flags
from ._core.tensors import at_least_float32, common_batch, island, readable, require_tensors
from .groups import Group, checks

if TYPE_CHECKING:
    from .models.completion import CompletionOutput


def algebra_loss(
    group: Group,
    delta: Tensor,
    poses: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    physical: bool = True,
    chart: str = "principal",
) -> Tensor:
    r"""Mean of $|\delta_i - \log(g_i^{-1} g^*_i)|^2$: the correction against the one needed.

    Args:
        delta: `[..., dim]`, orthonormal coordinates as the model returns them.
        poses: the poses that delta corrects, `[..., m, m]`.
        target: the true poses, `[..., m, m]`; broadcasts to `poses`.
        mask: `[...]`, True = counts.
        weights: `[K]`, a weight for each block.
        physical: measure in radians and logarithms of scale, else in orthonormal coordinates.
        chart: of the correction: "polar" for models with `output="global"`.
    Returns:
        A scalar. Elements without a logarithm in the chart do not count.
    """
    _require_poses(group, poses, target)
    checks.coordinates(group, delta)
    _require_shape("delta", delta.shape[:-1], poses.shape[:-2])
    with island(delta):
        poses, target = _real(group, mask, poses, target)
        needed, valid = group.relation(poses, target, chart)
        needed = needed[..., : group.dim]  # no correction changes the parity
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
    chart: str = "principal",
) -> Tensor:
    r"""Mean of $|\log(\hat g^{-1} g^*)|^2$; pairs without a logarithm have the chordal distance.

    Arguments are those of `algebra_loss`, with predicted poses `[..., m, m]` instead of delta. In
    the polar chart every pair of Aff(n) has a distance, and `weights` has one more, for parity.
    """
    _require_poses(group, predicted, target)
    with island(predicted):
        predicted, target = _real(group, mask, predicted, target)
        w, valid = group.relation(predicted, target, chart)
        square = _weighted(group, w, weights, physical)
        return _mean(torch.where(valid, square, squared_chord(group, predicted, target)), mask)


def chordal_loss(
    group: Group, predicted: Tensor, target: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Mean of $\|\hat g^{-1} g^* - I\|_F^2$: smooth everywhere, defined for every pair.

    On SO(n) and SE(n) it is $\|\hat g - g^*\|_F^2$.
    """
    _require_poses(group, predicted, target)
    with island(predicted):
        predicted, target = _real(group, mask, predicted, target)
        return _mean(squared_chord(group, predicted, target), mask)


def gap_loss(logits: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of gap logits `[..., N]` against probabilities `[..., N]`.

    Args:
        logits: of a `GapHead`.
        target: the true probability of each token, e.g. 1/2 for the two beside the gap.
        mask: `[..., N]`, True = real token. A set without real tokens does not count.
    """
    require_tensors(logits=logits, target=target, mask=mask)
    _require_shape("target", target.shape, logits.shape, "a probability for every token")
    logits = at_least_float32(logits, logits)
    real = None
    if mask is not None:
        _require_mask(mask, logits.shape)
        logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
        target = torch.where(mask, target, 0)
        real = mask.any(-1)
    return _mean(-(target * logits.log_softmax(-1)).sum(-1), real)


def completion_loss(
    group: Group,
    out: CompletionOutput,
    missing: Tensor,
    beside: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """The loss of the completion task: position of the gap and corrections to the missing pose.

    Args:
        out: of a `CompletionModel`.
        missing: the missing pose, `[..., m, m]`.
        beside: `[..., N]`, True for the tokens beside the gap, from which it is predicted. They
            share the probability evenly, so the least cross-entropy is ln 2 for two.
        mask: `[..., N]`, True = real token.
    Returns:
        Cross-entropy of the gap plus the squared error of the corrections beside it.
    """
    frames = out.frames
    require_tensors(missing=missing, beside=beside)
    _require_shape("missing", missing.shape, frames[..., 0, :, :].shape, "one pose a set")
    _require_mask(beside, frames.shape[:-2], "beside")
    if readable(beside) and beside.numel() and not beside.any():
        raise ValueError("beside marks no token, so there is nothing to learn from.")
    target = beside / beside.sum(-1, keepdim=True).clamp(min=1)
    gap = gap_loss(out.gap, target, mask)
    return gap + algebra_loss(group, out.delta, frames, missing.unsqueeze(-3), beside)


def _weighted(group: Group, w: Tensor, weights: Tensor | None, physical: bool) -> Tensor:
    squares = group.block_sq_norms(group.to_physical(w) if physical else w)
    if weights is not None:
        require_tensors(weights=weights)
        _require_shape("weights", weights.shape, squares.shape[-1:], "a weight for every block")
    return squares.sum(-1) if weights is None else (squares * weights.to(squares)).sum(-1)


def squared_chord(group: Group, predicted: Tensor, target: Tensor) -> Tensor:
    r"""$\|\hat g^{-1} g^* - I\|_F^2$ of each pair, `[...]`."""
    relative = group.relative(predicted, target)
    eye = torch.eye(group.matrix_size, dtype=relative.dtype, device=relative.device)
    return (relative - eye).square().sum((-2, -1))


def _real(group: Group, mask: Tensor | None, *poses: Tensor) -> list[Tensor]:
    """Poses with the identity where they do not count, so that NaN there reaches no gradient."""
    if mask is None:
        return list(poses)
    _require_mask(mask, poses[0].shape[:-2])
    return [torch.where(mask[..., None, None], g, torch.eye(g.shape[-1]).to(g)) for g in poses]


def _both(mask: Tensor | None, valid: Tensor) -> Tensor:
    return valid if mask is None else valid & mask


def _mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over what counts; zero if nothing does."""
    if mask is None:
        return x.sum() / max(x.numel(), 1)
    return torch.where(mask, x, 0).sum() / mask.sum().clamp(min=1)


def _require_poses(group: Group, poses: Tensor, target: Tensor) -> None:
    checks.poses(group, poses)
    checks.poses(group, target, "target poses")
    fits = target.dim() == poses.dim()
    if not fits or common_batch(poses.shape[:-2], target.shape[:-2]) != poses.shape[:-2]:
        raise ValueError(
            f"target poses must have the shape {list(poses.shape)} of the poses, or 1 where they "
            f"are shared, got {list(target.shape)}."
        )


def _require_mask(mask: Tensor, shape: torch.Size, name: str = "mask") -> None:
    require_tensors(**{name: mask})
    require_flags(name, mask, shape, "where it counts")


def _require_shape(name: str, got: torch.Size, expected: torch.Size, what: str = "") -> None:
    if got != expected:
        hint = f", {what}" if what else " beside its last dimension"
        raise ValueError(f"{name} must have shape {list(expected)}{hint}, got {list(got)}.")
