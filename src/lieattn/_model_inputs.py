"""What a model accepts: masks, features and poses that fit, and messages where they do not."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _masks as masks
from ._precision import island
from ._reading import readable
from .config import LieTransformerConfig
from .groups import Group, _validate
from .relations import Relations, common_batch, require_neighbours


def split_mask(
    mask: Tensor | None, poses: Tensor, neighbours: Tensor | None = None
) -> tuple[Tensor | None, Tensor | None]:
    """A mask of tokens `[..., N]` and a mask of pairs `[..., N, N]`, from either of them.

    A token that a mask of pairs lets neither attend nor be attended to is padding.
    """
    if mask is None:
        return None, None
    masks.require_boolean(mask)
    batch, n = poses.shape[:-3], poses.shape[-3]
    if mask.dim() == len(batch) + 2:
        if mask.shape[-2] != n:
            raise ValueError(
                f"a mask of pairs must have shape {[*batch, n, n]}, got {list(mask.shape)}."
            )
        if neighbours is not None:  # its columns are places in lists, not tokens
            return None, mask
        if mask.shape[-1] != n:
            return None, mask  # `restrict` says what is wrong
        return (mask.any(-1) | mask.any(-2)).expand(*batch, n), mask
    if mask.shape != (*batch, n):
        hint = f" A mask of pairs is [B, {n}, {n}]." if mask.dim() == 2 else ""
        raise ValueError(
            f"mask must have shape {[*batch, n]}, one value a token of the poses "
            f"{list(poses.shape)}, got {list(mask.shape)}.{hint}"
        )
    if mask.numel() and readable(mask) and not mask.any():
        raise ValueError(
            "mask is False everywhere, so no token is real: True marks a real token, False "
            "padding. A key_padding_mask of torch means the opposite; pass ~mask."
        )
    return mask, None


def checked_poses(group: Group, poses: Tensor, tokens: Tensor | None, check: bool) -> Tensor:
    """Poses with the identity in the place of padding; the others are checked, if asked."""
    g = poses if tokens is None else masks.without_padding(group, poses, tokens)
    if check and readable(g):
        _check(group, g.detach().float(), masked=tokens is not None)
    return g


def _check(group: Group, g: Tensor, masked: bool) -> None:
    """`group.check`, and a word about masks where padding is the likely reason.

    In float32: float64 poses may come from files of float32.
    """
    blank = ~g.isfinite().all(-1).all(-1) | (g == 0).all(-1).all(-1)
    try:
        with island(g):
            group.check(g)
    except ValueError as error:
        if not blank.any():
            hint = f" Poses of another group? The model is of {group}."
        elif masked:
            hint = " The mask has it as a real token: True marks real ones. Is it inverted?"
        else:
            hint = " If it is padding, pass mask=..., True for real tokens."
        raise ValueError(f"{error}{hint}") from None


def require_set(group: Group, poses: Tensor) -> None:
    """Poses are a set `[..., N, m, m]`."""
    _validate.poses(group, poses)
    if poses.dim() < 3:
        m = group.matrix_size
        raise ValueError(
            f"{group} poses must be a set [..., N, {m}, {m}], got {list(poses.shape)}. For a "
            "single pose add the dimension: poses[None]."
        )


def require_batches(poses: Tensor, **others: tuple[Tensor | None, int]) -> None:
    """What comes with the poses broadcasts to their batch. Given with its own dimensions."""
    batch = poses.shape[:-3]
    for name, (x, own) in others.items():
        if not isinstance(x, Tensor) or x.dim() <= own:
            continue
        if common_batch(x.shape[: x.dim() - own], batch) != batch:
            raise ValueError(
                f"{name} must have the batch {list(batch)} of the poses {list(poses.shape)}, got "
                f"shape {list(x.shape)}."
            )


def require_config(config: LieTransformerConfig | None) -> LieTransformerConfig:
    """The config, or the default one."""
    if config is not None and not isinstance(config, LieTransformerConfig):
        raise TypeError(
            f"config must be a LieTransformerConfig, got {type(config).__name__}. For a dictionary "
            "use LieTransformerConfig.from_dict(...)."
        )
    return config or LieTransformerConfig()


def require_features(features: Tensor | None, poses: Tensor, width: int) -> None:
    """Features are `[..., N, width]`, and there if and only if the model has a width for them."""
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
            "this model has no features; build it with LieTransformerConfig(features="
            f"{features.shape[-1]})."
        )
    if features.shape != (*poses.shape[:-2], width):
        raise ValueError(
            f"features must have shape {[*poses.shape[:-2], width]}, got {list(features.shape)}."
        )


def moving(tokens: Tensor | None, frozen: Tensor | None, poses: Tensor) -> Tensor | None:
    """Tokens whose pose may change: real and not frozen, `[..., N]`, or None for all."""
    if frozen is None:
        return tokens
    if frozen.dtype != torch.bool or frozen.shape != poses.shape[:-2]:
        raise ValueError(
            f"frozen must be boolean of shape {list(poses.shape[:-2])}, True for a pose that "
            f"stays, got {frozen.dtype} {list(frozen.shape)}."
        )
    return ~frozen if tokens is None else tokens & ~frozen


def restrict(
    rel: Relations, tokens: Tensor | None, pairs: Tensor | None, neighbours: Tensor | None
) -> Relations:
    """Relations whose `valid` leaves out what a mask of tokens or of pairs forbids."""
    if pairs is not None:
        _require_pairs(pairs, rel.valid.shape)
        return Relations(rel.coords, rel.valid & pairs)
    if tokens is None:
        return rel
    # Padding is not asked, and asks nothing either.
    batch, n = tokens.shape[:-1], tokens.shape[-1]
    keys = masks.pair_mask(tokens, batch, n, neighbours).squeeze(-3)
    return Relations(rel.coords, rel.valid & keys & tokens[..., None])


def pairs_allowed(
    g: Tensor, tokens: Tensor | None, pairs: Tensor | None, neighbours: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """What `restrict` leaves: a mask that broadcasts to `[..., 1, N, N]`, and queries `[..., N]`.

    Two masks where one of all pairs would do: it would be the largest tensor of the model.
    """
    batch, n = g.shape[:-3], g.shape[-3]
    if neighbours is not None:
        require_neighbours(neighbours, n, n)
    if pairs is not None:
        columns = n if neighbours is None else neighbours.shape[-1]
        _require_pairs(pairs, torch.Size((*batch, n, columns)))
        return pairs.unsqueeze(-3), None
    if tokens is None:
        return None, None
    return masks.pair_mask(tokens, batch, n, neighbours), tokens


def _require_pairs(pairs: Tensor, shape: torch.Size) -> None:
    if pairs.shape[-2:] != shape[-2:]:
        raise ValueError(f"a mask of pairs must have shape {list(shape)}, got {list(pairs.shape)}.")
