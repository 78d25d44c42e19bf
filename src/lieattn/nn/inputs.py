"""Checks of the inputs of models: masks, features and poses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core import masks
from .._core.tensors import common_batch, island, readable
from ..groups import Group


def admitted(
    group: Group, poses: Tensor, tokens: Tensor | None, check: bool
) -> tuple[Tensor, Tensor | None]:
    """Valid poses, and which tokens are real, `[..., N]` or None for all.

    Padding becomes the identity. With `check`, eager models on a CPU raise an error for any other
    pose that is not of the group. Compiled models and GPUs must not wait for values: they treat
    invalid poses as padding.
    """
    g = poses if tokens is None else masks.without_padding(group, poses, tokens)
    if check and readable(g):
        _check(group, g.detach(), masked=tokens is not None)
        return g, tokens
    fine = group.admits(g)
    tokens = fine if tokens is None else tokens & fine
    return masks.without_padding(group, g, fine), tokens


def _check(group: Group, g: Tensor, masked: bool) -> None:
    """`group.check`, with advice on masks where padding is the likely reason.

    float64 poses may come from float32 files, so they pass if they are valid in either precision.
    """
    with island(g):
        fine = group.contains(g)
        if g.dtype == torch.float64:
            fine = fine | group.contains(g.float())
        if fine.all():
            return
        blank = ~g.isfinite().all(-1).all(-1) | (g == 0).all(-1).all(-1)
        eye = group.identity(dtype=g.dtype, device=g.device)
        try:
            group.check(torch.where(fine[..., None, None], eye, g))
        except ValueError as error:
            if not blank.any():
                hint = f" Poses of another group? The model is of {group}."
            elif masked:
                hint = " The mask has it as a real token: True marks real ones. Is it inverted?"
            else:
                hint = " If it is padding, pass mask=..., True for real tokens."
            raise ValueError(f"{error}{hint}") from None


def require_batches(poses: Tensor, **others: tuple[Tensor | None, int]) -> None:
    """Require that tensors broadcast to the batch of the poses. Each has its own dimensions."""
    batch = poses.shape[:-3]
    for name, (x, own) in others.items():
        if not isinstance(x, Tensor) or x.dim() <= own:
            continue
        if common_batch(x.shape[: x.dim() - own], batch) != batch:
            raise ValueError(
                f"{name} must have the batch {list(batch)} of the poses {list(poses.shape)}, got "
                f"shape {list(x.shape)}."
            )


def require_features(features: Tensor | None, poses: Tensor, config: Any) -> None:
    """Features are `[..., N, width]`, and there if and only if the model has a width for them."""
    width = config.features
    if features is None:
        if width:
            raise ValueError(
                f"this model reads {width} features a token: pass features=[..., N, {width}]."
            )
        return
    if features.dtype == torch.bool:
        raise ValueError("features are boolean: was the mask meant? Pass mask=... by name.")
    if not width:
        raise ValueError(
            "this model has no features; build it with "
            f"{type(config).__name__}(features={features.shape[-1]})."
        )
    if features.shape != (*poses.shape[:-2], width):
        raise ValueError(
            f"features must have shape {[*poses.shape[:-2], width]}, got {list(features.shape)}."
        )


def require_not_causal(pairs: Tensor | None, bias: Tensor | None) -> None:
    """Refuse a causal mask, or a causal bias of -inf, of a model whose scales see all pairs.

    Values are read, so eager models on a CPU alone refuse it. The mask is `[..., N, N]`.
    """
    found = {"mask": pairs, "bias": None if bias is None or bias.dim() < 2 else bias > -torch.inf}
    for name, allowed in found.items():
        if allowed is None or allowed.shape[-2] != allowed.shape[-1] or not readable(allowed):
            continue
        if allowed.tril(-1).any() and not allowed.triu(1).any():
            raise ValueError(
                f"the {name} is causal: no token attends to a later one. With normalise=True the "
                "scales of a set depend on all pairs that attend, so later tokens would change "
                "earlier answers. Use LieTransformerConfig(normalise=False)."
            )


def moving(tokens: Tensor | None, frozen: Tensor | None, poses: Tensor) -> Tensor | None:
    """Tokens whose pose may change: real and not frozen, `[..., N]`, or None for all."""
    if frozen is None:
        return tokens
    masks.require_flags("frozen", frozen, poses.shape[:-2], "for a pose that stays")
    return ~frozen if tokens is None else tokens & ~frozen
