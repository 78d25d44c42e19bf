"""Masks and biases of layers: what people pass, as what the operator takes."""

from __future__ import annotations

import torch
from torch import Tensor

from .groups import Group
from .relations import common_batch, gather_neighbours


def without_padding(group: Group, poses: Tensor, tokens: Tensor) -> Tensor:
    """Poses with the identity where a mask of tokens `[..., N]` says padding, whatever it holds."""
    if tokens.shape != poses.shape[:-2] or tokens.dtype != torch.bool:
        return poses  # a mask of pairs, or one of which `pair_mask` says what is wrong
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


def require_boolean(mask: Tensor) -> None:
    """A mask is boolean; what else people hold is told how to become one."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, True for a real token, got {mask.dtype}. From lengths use "
            "torch.arange(N) < lengths[:, None]; from 1 and 0, mask.bool(); from 0 and -inf, "
            "mask == 0."
        )


def pair_bias(bias: Tensor, batch: int) -> Tensor:
    """A layer's bias of pairs, or of pairs and heads, as `[..., H, Nq, Nk]`."""
    if bias.dim() - batch not in (2, 3):
        raise ValueError(
            f"bias must be [B, H, Nq, Nk], or [B, Nq, Nk] for all heads, with {batch} batch "
            f"dimensions, got {list(bias.shape)}."
        )
    return bias if bias.dim() - batch == 3 else bias.unsqueeze(-3)
