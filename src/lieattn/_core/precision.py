"""The float32 island: geometry and scores keep their precision under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


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
