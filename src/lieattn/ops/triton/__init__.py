"""The operator on CUDA devices, in Triton: O(N) memory, forward and backward.

SO(2), SE(2), SO(3), SE(3) and Aff(2), block weights, float32. `unsupported` says what is not done
here. The gradient with respect to poses of SO(n) and SE(n) is the gradient along the group: it
agrees with the reference's on every motion of a pose, not off the group, where the reference has
one extension of the logarithm and this backend another. There are no second derivatives.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from math import pi

import torch
from torch import Tensor

from ...groups import get_group
from ..dispatch import names, not_for_kernels, tensors_given
from ..request import Request
from .features import FAMILIES
from .op import triton_forward

_WIDEST = 256  # wider heads are done in slices: a tile of values must fit on the chip


# The fields of a request that are answered, within the bounds that `unsupported` knows. `prune`
# allows to leave keys out, and none are.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "margin", "prune"),
    }
)


GROUPS = [get_group(name) for name in FAMILIES]


def unsupported(request: Request) -> str | None:
    """Why this backend cannot answer a request, in a sentence, or None if it can."""
    return not_for_kernels(request, GROUPS) or _unfit(request) or _no_device(request)


def run(request: Request) -> tuple[Tensor, Tensor]:
    """`out [..., H, Nq, dv]` and `coords [..., H, Nq, C]` of a request that is supported."""
    group = request.group
    margin = max(
        float(request.margin), group.chart(request.chart).resolution(request.q_poses.dtype)
    )
    x = request.operands(_coordinate_weights(request), margin)
    slices = x.values.split(_WIDEST, dim=-1)
    parts = [triton_forward(*x._replace(values=part)) for part in slices]
    out = torch.cat([part[0] for part in parts], dim=-1) if len(parts) > 1 else parts[0][0]
    places, coords = FAMILIES[group.name].coordinates, parts[0][1]
    return request.unflat(out, coords if len(places) == 6 else coords[..., list(places)])


def _unfit(request: Request) -> str | None:
    """What these kernels in particular cannot do."""
    if FAMILIES[request.group.name].affine and request.chart != "principal":
        return f"it knows the principal chart of {request.group}, not the {request.chart} one."
    if not 0 <= request.margin <= pi / 2:
        return f"it takes margins from 0 to pi/2, not {request.margin}."
    return None


def _coordinate_weights(request: Request) -> Tensor:
    """Block weights `[H, K]` spread over the kernel's six coordinates, `[H, 6]`."""
    assert isinstance(request.weights, Tensor), unsupported(request)
    weights = request.weights.float()
    sizes = torch.tensor([block.dim for block in request.group.blocks], device=weights.device)
    spread = weights.repeat_interleave(sizes, dim=1, output_size=request.group.dim)
    places = FAMILIES[request.group.name].coordinates
    if len(places) == 6:
        return spread
    full = weights.new_zeros(weights.shape[0], 6)
    return full.index_copy(1, torch.tensor(places, device=weights.device), spread)


def _no_device(request: Request) -> str | None:
    devices = {x.device for x in tensors_given(request)}
    if len(devices) > 1:
        return f"tensors are on several devices, {names(devices)}."
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if request.q_poses.device.type != "cuda" and not interpreted:
        return f"it runs on CUDA devices, and tensors are on {names(devices)}."
    if find_spec("triton") is None:
        return "triton is not installed, see lieattn[triton]."
    return None
