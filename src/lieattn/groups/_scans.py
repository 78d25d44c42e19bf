"""Products of long chains of poses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.small import widened
from . import checks

if TYPE_CHECKING:
    from .base import Group


def cumulative(group: Group, steps: Tensor) -> Tensor:
    """g_1, g_1 g_2, ... of `[..., N, m, m]`, by a scan of depth log N (Hillis and Steele)."""
    if checks.poses(group, steps, "steps").dim() < 3:
        m = group.matrix_size
        raise ValueError(
            f"{group} steps must have shape [..., N, {m}, {m}], got {list(steps.shape)}."
        )
    # Rounding took the steps off the group, all perhaps to the same side: that would add up.
    g = group._settle(widened(steps))
    span = 1
    while span < g.shape[-3]:
        later = group.compose(g[..., :-span, :, :], g[..., span:, :, :])
        g = torch.cat((g[..., :span, :, :], later), dim=-3)
        span *= 2
    return group._settle(g).to(steps.dtype)
