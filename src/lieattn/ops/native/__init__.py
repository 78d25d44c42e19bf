"""The operator on CPUs, in C++: O(N) memory, forward and backward, at the price of plain attention.

SO(n), SE(n) and Aff(n) with block weights, in float32. `unsupported` says what is not done here.
The reference answers poses that the kernel cannot take (NaN, or far from a rotation), and second
derivatives.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

from ...groups import get_group
from .._custom import operator
from ..dispatch import names, not_for_kernels, tensors_given
from ..request import Request
from . import call, fallback
from .call import CODES

# The fields of a request that are answered, within the bounds that `unsupported` knows.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "margin", "dtype", "prune", "first"),
    }
)

GROUPS = [get_group(name) for name in CODES]

native_forward = operator(
    "native",
    lambda x: call.forward(x),
    call.shapes,
    call.backward,
    fallback.second_derivatives,
    "cpu",
)


def unsupported(request: Request) -> str | None:
    """Why this backend cannot answer a request, in a sentence, or None if it can."""
    if call.MISSING is not None:
        return f"{call.MISSING}."
    return not_for_kernels(request, GROUPS) or _unfit(request)


def run(request: Request) -> tuple[Tensor, Tensor]:
    """`out [..., H, Nq, dv]` and `coords [..., H, Nq, C]` of a request that is supported."""
    weights = request.weights
    assert isinstance(weights, Tensor), unsupported(request)
    margin = min(float(request.margin), pi)  # from pi on no pair is left
    x = request.operands(weights, margin)
    out, coords, _ = native_forward(*x) if _watched(tensors_given(request)) else call.forward(x)
    return request.unflat(out, coords)


def _unfit(request: Request) -> str | None:
    """What this kernel in particular cannot do."""
    group, chart, weights = request.group, request.chart, request.weights
    if chart != "principal" and group.chart_blocks(chart) != group.blocks:
        return f"it knows the principal chart of {group}, not the {chart} one."
    if request.exclude_self and request.first:
        return "it does not take blocks of a set's queries."
    if 0 in request.values.shape[:-3] and 0 not in request.q_poses.shape[:-3]:
        return "it does not take poses of which there are no values."
    if not request.margin >= 0:
        return f"it takes margins from 0 on, not {request.margin}."
    if isinstance(weights, Tensor) and weights.dtype != torch.float32:
        return f"it computes in float32, and weights are {weights.dtype}."
    if request.dtype not in (None, torch.float32):
        return f"it computes in float32, and {request.dtype} is asked for."
    devices = {x.device.type for x in tensors_given(request)}
    if devices != {"cpu"}:
        return f"it runs on the CPU, and tensors are on {names(devices)}."
    return None


def _watched(tensors: list[Tensor]) -> bool:
    """Whether torch has to see the call, as an operator: to differentiate, trace or time it.

    Otherwise the cost of an operator is saved, which equals that of the attention of a small set.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    if torch._C._len_torch_dispatch_stack() > 0 or torch._C._autograd._profiler_enabled():
        return True
    if any(type(x) is not Tensor and type(x) is not torch.nn.Parameter for x in tensors):
        return True
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
