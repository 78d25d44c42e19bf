"""When values may be looked at: never while tracing, and not where it would stall a device."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


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
