"""The operator on CPUs, in C++: O(N) memory, forward and backward, at the price of plain attention.

SO(n), SE(n) and Aff(n) with block weights, in float32. `unsupported` says what is not done here.
Poses that are not for the kernel (NaN, or far from a rotation) are answered by the reference, and
so are second derivatives.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from ..._core.tensors import transformed
from .._flat import flat, flat_pairs, is_registered, names, own_batch
from ..request import Request
from . import call
from .call import CODES
from .op import forward, native_forward

# The fields of a request that are answered, within the bounds that `unsupported` knows.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "margin", "dtype", "prune", "first"),
    }
)


def unsupported(request: Request) -> str | None:
    """Why this backend cannot answer a request, in a sentence, or None if it can."""
    if call.MISSING is not None:
        return f"{call.MISSING}."
    group, chart = request.group, request.chart
    if group.name not in CODES or not is_registered(group):
        return f"it knows {', '.join(CODES)}, not {group}."
    if chart != "principal" and group.chart_blocks(chart) != group.blocks:
        return f"it knows the principal chart of {group}, not the {chart} one."
    if not isinstance(request.weights, Tensor):
        return "it knows block weights, not scores or functions."
    if request.exclude_self and request.first:
        return "it does not take blocks of a set's queries."
    if 0 in request.values.shape[:-3] and 0 not in request.q_poses.shape[:-3]:
        return "it does not take poses of which there are no values."
    if not request.margin >= 0:
        return f"it takes margins from 0 on, not {request.margin}."
    return _unfit(request, request.weights)


def run(request: Request) -> tuple[Tensor, Tensor]:
    """`out [..., H, Nq, dv]` and `coords [..., H, Nq, C]` of a request that is supported."""
    batch, values, weights = request.batch, request.values, request.weights
    assert isinstance(weights, Tensor), unsupported(request)
    function = native_forward if _watched(request, weights) else forward
    out, coords, _ = function(
        request.group.name,
        flat(request.q_poses, batch),
        flat(request.k_poses, batch),
        flat(values.float(), batch),
        weights,
        flat_pairs(request.mask, batch),
        flat_pairs(request.bias, batch),
        request.exclude_self,
        min(float(request.margin), pi),  # from pi on no pair is left
        float(request.prune),
    )
    out = out.to(values.dtype)
    if len(batch) != 1:
        out = out.reshape(*batch, *out.shape[1:])
        coords = coords.reshape(*batch, *coords.shape[1:])
    return out, own_batch(coords, batch, request)


def _watched(request: Request, weights: Tensor) -> bool:
    """Whether torch has to see the call, as an operator: to differentiate, trace or time it.

    Where it has not, what an operator costs is saved, as much as the attention of a small set.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    if torch._C._len_torch_dispatch_stack() > 0 or torch._C._autograd._profiler_enabled():
        return True
    given = request.q_poses, request.k_poses, request.values, weights, request.mask, request.bias
    tensors = [x for x in given if x is not None]
    if any(type(x) is not Tensor and type(x) is not torch.nn.Parameter for x in tensors):
        return True
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _unfit(request: Request, weights: Tensor) -> str | None:
    """Tensors that are not for the kernel."""
    tensors = [request.q_poses, request.k_poses, request.values, weights]
    exact = {x.dtype for x in (request.q_poses, request.k_poses, weights)}
    if exact != {torch.float32} or request.dtype not in (None, torch.float32):
        exact |= {request.dtype} if request.dtype is not None else set()
        return f"it computes in float32, and poses and weights are {names(exact)}."
    if request.values.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"it computes in float32, and values are {request.values.dtype}."
    tensors += [x for x in (request.mask, request.bias) if x is not None]
    devices = {x.device.type for x in tensors}
    if devices != {"cpu"}:
        return f"it runs on the CPU, and tensors are on {names(devices)}."
    if transformed():
        return "it does not run inside vmap, grad or jvp of torch.func, nor in forward mode."
    return None
