"""Messages for wrong input: what was wrong, what was expected, how to correct it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_FLOATS = (torch.float32, torch.float64)


def dense(x: Any, what: str) -> Tensor:
    """`x` if it is a tensor that holds all its elements, not a sparse or nested one."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{what} must be a torch.Tensor, got {type(x).__name__}. Use torch.as_tensor(...)."
        )
    if is_dense(x):
        return x
    if x.is_nested:
        raise TypeError(
            f"{what} must be a dense tensor, got a nested one. Use x.to_padded_tensor(0.0) and a "
            "mask, True for real tokens."
        )
    layout = str(x.layout).removeprefix("torch.")
    raise TypeError(f"{what} must be a dense tensor, got layout {layout}. Use x.to_dense().")


def is_dense(x: Tensor) -> bool:
    """Whether a tensor holds all its elements at strides."""
    return x.layout == torch.strided and not x.is_nested


def tensor(x: Any, what: str) -> Tensor:
    """`x` if it is a float32 or float64 tensor; the message says how to convert otherwise."""
    dense(x, what)
    if x.dtype not in _FLOATS:
        raise ValueError(
            f"{what} must be float32 or float64, got {str(x.dtype).removeprefix('torch.')}: "
            "geometry below float32 loses equivariance. Use .float()."
        )
    return x


def vectors(x: Any, size: int, what: str) -> Tensor:
    """`x` if it is `[..., size]`."""
    if dense(x, what).shape[-1:] != (size,):
        raise ValueError(f"{what} must have shape [..., {size}], got {list(x.shape)}.")
    return tensor(x, what)


def require_tensors(**arguments: object) -> None:
    """Every argument is a dense tensor or was left out (None)."""
    for name, x in arguments.items():
        if x is not None:
            dense(x, name)
