"""Masks of layers and models, converted to the masks that the operator takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .tensors import common_batch, gather_neighbours, readable

if TYPE_CHECKING:
    from ..groups import Group


def without_padding(group: Group, poses: Tensor, tokens: Tensor) -> Tensor:
    """Poses with the identity at padding, which a mask of tokens `[..., N]` marks as False."""
    if tokens.shape != poses.shape[:-2] or tokens.dtype != torch.bool:
        return poses  # a mask of pairs, or one that `pair_mask` refuses
    eye = group.identity(dtype=poses.dtype, device=poses.device)
    return torch.where(tokens[..., None, None], poses, eye)


def pair_mask(
    mask: Tensor, batch: torch.Size, keys: int, neighbours: Tensor | None = None
) -> Tensor:
    """A layer's mask of keys, of pairs, or of pairs and heads, as `[..., H, Nq, Nk]`.

    Args:
        mask: one, two or three dimensions more than the batch.
        batch: the shape of the batch.
        keys: the number of keys.
        neighbours: lists `[..., Nq, k]`, for which a mask of keys is looked up.
    """
    require_boolean(mask)
    extra = mask.dim() - len(batch)
    fits = common_batch(mask.shape[: len(batch)], batch) == batch
    if extra == 1 and (mask.shape[-1] != keys or not fits):
        raise ValueError(
            f"a mask of tokens must have shape {[*batch, keys]}, got {list(mask.shape)}. A mask of "
            "pairs has one dimension more, [B, Nq, Nk]: for all sets alike use mask[None]."
        )
    if extra == 1 and neighbours is not None:
        return gather_neighbours(mask[..., None], neighbours)[..., 0].unsqueeze(-3)
    if extra == 1:
        return mask[..., None, None, :]
    if extra in (2, 3):
        return mask if extra == 3 else mask.unsqueeze(-3)
    raise ValueError(
        f"mask must be [B, Nk] (tokens), [B, Nq, Nk] (pairs) or [B, H, Nq, Nk], with batch "
        f"{list(batch)}, got {list(mask.shape)}."
    )


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Pairs that both masks allow; None allows all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def require_boolean(mask: Tensor) -> None:
    """Refuse a mask that is not boolean, and say how to convert it."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, True for a real token, got {mask.dtype}. From lengths use "
            "torch.arange(N) < lengths[:, None]; from 1 and 0, mask.bool(); from 0 and -inf, "
            "mask == 0."
        )


def require_flags(name: str, x: Tensor, shape: torch.Size, meaning: str) -> None:
    """Refuse what is not boolean of a shape; `meaning` says what True stands for."""
    if x.dtype != torch.bool or x.shape != shape:
        raise ValueError(
            f"{name} must be boolean of shape {list(shape)}, True {meaning}, got {x.dtype} "
            f"{list(x.shape)}."
        )


def require_any(mask: Tensor, problem: str) -> None:
    """Refuse sets `[..., N]` that have no True, and name the first."""
    empty = ~mask.any(-1)
    if empty.any():
        raise ValueError(f"set {int(empty.reshape(-1).nonzero()[0])} {problem}")


def split_mask(
    mask: Tensor | None, poses: Tensor, neighbours: Tensor | None = None
) -> tuple[Tensor | None, Tensor | None]:
    """A mask of tokens `[..., N]` and a mask of pairs `[..., N, N]`, from either of them.

    A token that neither attends nor is attended to is padding.
    """
    if mask is None:
        return None, None
    require_boolean(mask)
    batch, n = poses.shape[:-3], poses.shape[-3]
    if mask.dim() == len(batch) + 2:
        if mask.shape[-2] != n:
            raise ValueError(
                f"a mask of pairs must have shape {[*batch, n, n]}, got {list(mask.shape)}."
            )
        if neighbours is not None:  # its columns are places in lists, not tokens
            return None, mask
        if mask.shape[-1] != n:
            return None, mask  # `restrict` refuses it
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
