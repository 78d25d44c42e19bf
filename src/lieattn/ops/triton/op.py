"""The kernels in Triton as an operator of torch.

Triton is imported when a kernel is first launched, not with this file.
"""

from __future__ import annotations

from math import cos, sin
from typing import Any

import torch
from torch import Tensor

from .._custom import (
    Cotangents,
    Gradients,
    Needs,
    Results,
    empty_gradients,
    operator,
)
from ..request import Operands, pair_strides
from .features import FAMILIES, features, pose_gradient

# Tiles of 16 x 16 pairs on 4 warps: larger ones spill hundreds of bytes of registers (sm_80; these
# at most 48, see tools/compile_triton.py). No software pipeline: it doubles the code, for loads as
# small as those of features. Chosen without a GPU at hand; nothing is known of speed.
BLOCK, WARPS, STAGES = 16, 4, 1


def shapes(x: Operands) -> Results:
    """Empty results. Three float64 numbers of each query are kept, see `kernels.forward`."""
    B, H, Nq, _ = x.pairs
    out = x.values.new_empty(B, H, Nq, x.values.shape[-1])
    return Results(out, out.new_empty(B, H, Nq, 6), out.new_empty(B, H, Nq, 3, dtype=torch.float64))


def forward(x: Operands) -> Results:
    """Sums of values and coordinates. The weights are those of the six coordinates, `[H, 6]`."""
    results = shapes(x)
    if 0 in x.pairs:
        return Results(*(y.zero_() for y in results))
    from . import kernels

    rows = features(x.group, x.q_poses), features(x.group, x.k_poses)
    _Launch(x, *rows)(kernels.forward, x.q_poses.shape[1], [*results])
    return results


def backward(x: Operands, results: Results, incoming: Cotangents, needs: Needs) -> Gradients:
    """Gradients of the operands."""
    B, H, Nq, Nk = x.pairs
    found = empty_gradients(x, needs)
    for y in found:
        y.zero_()
    if 0 in x.pairs:
        return found
    from . import kernels

    # One slice a head: sums in a fixed order, where atomics would make them vary.
    zeros = x.values.new_zeros
    d_q, d_k = zeros(B, H, Nq, 6), zeros(B, H, Nk, 6)
    d_weights, spread, surplus = zeros(B, H, Nq, 6), zeros(B, H, Nq, 6), zeros(B, H, Nq)
    rows = features(x.group, x.q_poses), features(x.group, x.k_poses)
    launch, poses = _Launch(x, *rows), needs.q_poses or needs.k_poses
    # Along the output itself the softmax has no gradient.
    delta = (incoming.out * results.out).sum(-1) + (incoming.coords * results.coords).sum(-1)
    given = [y.contiguous() for y in (*incoming, results.kept, delta)]
    launch(
        kernels.backward_queries,
        Nq,
        [*given, d_q, d_weights, spread, surplus, found.bias],
        pair_strides(found.bias if needs.bias else None, x.pairs),
        POSES=poses,
        BIAS_GRADIENT=needs.bias,
    )
    launch(kernels.backward_keys, Nk, [*given, d_k, found.values], POSES=poses)
    if needs.q_poses:
        found.q_poses.copy_(pose_gradient(x.group, rows[0], d_q.sum(1), query=True))
    if needs.k_poses:
        found.k_poses.copy_(pose_gradient(x.group, rows[1], d_k.sum(1), query=False))
    # The gradients of a row's logits add up to 0. What they add up to beyond it is the rounding
    # of delta, which all keys of a row share and no sum over keys averages out.
    found.weights.copy_((d_weights + surplus[..., None] * spread).sum((0, 2)))
    return found


triton_forward = operator("triton", forward, shapes, backward)


class _Launch:
    """The arguments that the three kernels share."""

    def __init__(self, x: Operands, q: Tensor, k: Tensor) -> None:
        B, H, Nq, Nk = x.pairs
        dv, margin, affine = x.values.shape[-1], x.margin, FAMILIES[x.group].affine
        self.sets = B * H
        # Triton has no booleans in memory.
        mask = x.mask.view(torch.uint8) if x.mask is not None else None
        self.first = [q, k, x.values.contiguous(), x.weights.contiguous(), mask, x.bias]
        self.sizes = [H, Nq, Nk, dv]
        self.strides = [*pair_strides(mask, x.pairs), *pair_strides(x.bias, x.pairs)]
        if affine:
            self.limits = [cos(margin), sin(margin)]
        else:
            # The scalar part of a quaternion is the cosine of half the angle. Without a margin
            # half turns are in, rounding included.
            self.limits = [sin(margin / 2) if margin else -1.0, 0.0]
        self.constants = {
            "FEATURES": q.shape[1],
            "AFFINE": affine,
            "MASK": mask is not None,
            "BIAS": x.bias is not None,
            "EXCLUDE_SELF": x.exclude_self,
            "BLOCK": BLOCK,
            "WIDTH": max(16, 1 << (dv - 1).bit_length()),  # 16: the least that tl.dot takes
        }

    def __call__(
        self,
        kernel: Any,
        rows: int,
        tensors: list[Tensor],
        more_strides: tuple[int, ...] = (),
        **constants: bool,
    ) -> None:
        """Launch a kernel over blocks of `rows` tokens of every head of every set."""
        grid = (self.sets * -(-rows // BLOCK),)
        arguments = [*self.first, *tensors, *self.sizes, *self.strides, *more_strides]
        with torch.cuda.device_of(tensors[0]):  # Triton launches on the current device
            kernel[grid](
                *arguments,
                *self.limits,
                **self.constants,
                **constants,
                num_warps=WARPS,
                num_stages=STAGES,
            )
