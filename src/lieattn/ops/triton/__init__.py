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

from .._flat import flat, flat_pairs, is_registered, names, own_batch
from ..request import Request
from .features import FAMILIES
from .op import triton_attention

_WIDEST = 256  # wider heads are done in slices: a tile of values must fit on the chip


# The fields of a request that are answered, within the bounds that `unsupported` knows. `prune`
# allows to leave keys out, and none are.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "margin", "prune"),
    }
)


def unsupported(request: Request) -> str | None:
    """Why this backend cannot answer a request, in a sentence, or None if it can."""
    group, chart = request.group, request.chart
    if group.name not in FAMILIES or not is_registered(group):
        return f"it knows {', '.join(FAMILIES)}, not {group}"
    if FAMILIES[group.name].affine and chart != "principal":
        return f"it knows the principal chart of {group}, not the {chart} one"
    if not isinstance(request.weights, Tensor):
        return "it knows block weights, not scores or functions"
    if not 0 <= request.margin <= pi / 2:
        return f"it takes margins from 0 to pi/2, not {request.margin}"
    poses = {request.q_poses.dtype, request.k_poses.dtype}
    if poses != {torch.float32}:
        return f"it computes in float32, and poses are {names(poses)}"
    if request.values.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"it computes in float32, and values are {request.values.dtype}"
    return _no_device(request, request.weights)


def run(request: Request) -> tuple[Tensor, Tensor]:
    """`out [..., H, Nq, dv]` and `coords [..., H, Nq, C]` of a request that is supported."""
    q, k, values = request.q_poses, request.k_poses, request.values
    batch = request.batch
    mask, bias = flat_pairs(request.mask, batch), flat_pairs(request.bias, batch)
    poses, weights = (flat(q, batch), flat(k, batch)), _coordinate_weights(request)
    margin = max(float(request.margin), request.group.chart(request.chart).resolution(q.dtype))
    options = weights, mask, bias, request.exclude_self, margin
    slices = flat(values, batch).float().split(_WIDEST, dim=-1)
    parts = [triton_attention(request.group.name, *poses, part, *options) for part in slices]
    out = torch.cat([part[0] for part in parts], dim=-1) if len(parts) > 1 else parts[0][0]
    places = FAMILIES[request.group.name].coordinates
    coords = parts[0][1] if len(places) == 6 else parts[0][1][..., list(places)]
    coords = coords.reshape(*batch, *coords.shape[1:])
    return out.to(values.dtype).reshape(*batch, *out.shape[1:]), own_batch(coords, batch, request)


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


def _no_device(request: Request, weights: Tensor) -> str | None:
    tensors = [request.q_poses, request.k_poses, request.values, weights]
    tensors += [x for x in (request.mask, request.bias) if x is not None]
    devices = {x.device for x in tensors}
    if len(devices) > 1:
        return f"tensors are on several devices, {names(devices)}"
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if tensors[0].device.type != "cuda" and not interpreted:
        return f"it runs on CUDA devices, and tensors are on {tensors[0].device}"
    if find_spec("triton") is None:
        return "triton is not installed, see lieattn[triton]"
    # A question that the compiler cannot trace; there the op itself refuses torch.func.
    if not torch.compiler.is_compiling() and any(map(_is_wrapped, tensors)):
        return "it does not run inside vmap, grad or jvp of torch.func"
    return None


def _is_wrapped(x: Tensor) -> bool:
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(x))
