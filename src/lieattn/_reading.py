"""When values may be looked at: never while tracing, and not where it would stall a device."""

from __future__ import annotations

import torch
from torch import Tensor


def readable(*tensors: Tensor) -> bool:
    """True if the values of these tensors can be read at no cost: eager tensors on the CPU."""
    if torch.compiler.is_compiling():
        return False
    return all(x.device.type == "cpu" and not _wrapped(x) for x in tensors)


def _wrapped(x: Tensor) -> bool:
    """Inside vmap, or a tensor without data (fake, meta): there is nothing to read."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x) or type(x) not in (
        Tensor,
        torch.nn.Parameter,
    )
