"""Tensors of any meaning: checks, batches, whether values may be read, float32 under autocast.

Messages for wrong input say what was wrong, what was expected and how to correct it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

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


# ---- batches that broadcast, and rows that lists of neighbours name ------------------------------


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


# ---- when values may be read: not while tracing, and not where it would stall a device ----------


def readable(*tensors: Tensor) -> bool:
    """True if the values of these tensors can be read at no cost: eager tensors on the CPU."""
    return has_memory(*tensors) and all(x.device.type == "cpu" for x in tensors)


def has_memory(*tensors: Tensor) -> bool:
    """True if these are eager tensors, not stand-ins for them as in vmap and while tracing."""
    return not torch.compiler.is_compiling() and not any(map(_wrapped, tensors))


def _wrapped(x: Tensor) -> bool:
    """Inside vmap, or a tensor without data (fake, meta): there is nothing to read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x) or type(x) not in (
        Tensor,
        torch.nn.Parameter,
    )


def transformed() -> bool:
    """Inside torch.func or forward mode, whose derivatives are their own."""
    level = torch._C._functorch.maybe_current_level()
    return level is not None or forward_ad._current_level >= 0


# The compiler cannot trace the question, but may ask it: it enters the levels that it traces, and
# guards on them. See also `dispatch._load`.
transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]


# ---- the float32 island: geometry and scores keep their precision under autocast -----------------


def island(x: Tensor, autocast: bool = False) -> AbstractContextManager[object]:
    """Context in which autocast is off for the device of `x`, unless `autocast` allows it.

    Nothing at all where it is off anyway: exporters do not know the context.
    """
    if autocasting(x) and not autocast:
        return torch.autocast(x.device.type, enabled=False)
    return nullcontext()


def autocasting(x: Tensor) -> bool:
    """True where autocast is on for the device of `x`."""
    device = x.device.type
    return device != "meta" and torch.is_autocast_enabled(device)


def at_least_float32(x: Tensor, like: Tensor) -> Tensor:
    """`x` in the dtype of `like`, but never below float32."""
    return x.to(torch.promote_types(like.dtype, torch.float32))
