"""The operator in Triton as custom ops of torch: forward, backward, their shapes for tracing.

Triton is imported when a kernel is first launched, not with this file.
"""

from __future__ import annotations

from math import cos, sin
from typing import Any

import torch
from torch import Tensor

from .._flat import pair_strides
from .features import FAMILIES, features, pose_gradient

# Tiles of 16 x 16 pairs on 4 warps: larger ones spill hundreds of bytes of registers (sm_80; these
# at most 48, see tools/compile_triton.py). No software pipeline: it doubles the code, for loads as
# small as those of features. Chosen without a GPU at hand; nothing is known of speed.
BLOCK, WARPS, STAGES = 16, 4, 1


@torch.library.custom_op("lieattn::triton_attention", mutates_args=())
def triton_attention(
    group: str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    exclude_self: bool,
    margin: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of values and coordinates, and what the backward pass needs of every query.

    Args:
        group: a name in `FAMILIES`.
        q_poses: `[B, Nq, m, m]`, float32, as all that follow.
        k_poses: `[B, Nk, m, m]`.
        values: `[B, H, Nk, dv]`.
        weights: a weight for each of the kernel's coordinates, `[H, 6]`.
        mask, bias: four dimensions that broadcast to `[B, H, Nq, Nk]`.
        exclude_self, margin: as for `lie_attention`.
    Returns:
        `[B, H, Nq, dv]`, `[B, H, Nq, 6]`, `[B, H, Nq, 3]` in float64, without a gradient.
    """
    out, coords, kept = _shapes(group, q_poses, k_poses, values)
    if not out.shape[:-1].numel() or not values.shape[2]:
        return out.zero_(), coords.zero_(), kept.zero_()
    from . import kernels

    rows = features(group, q_poses), features(group, k_poses)
    launch = _Launch(group, *rows, values, weights, mask, bias, exclude_self, margin)
    launch(kernels.forward, q_poses.shape[1], [out, coords, kept])
    return out, coords, kept


@triton_attention.register_fake
def _shapes(group: str, q_poses: Tensor, k_poses: Tensor, values: Tensor, *_: Any) -> Any:
    B, H, _Nk, dv = values.shape
    Nq = q_poses.shape[1]
    return (
        values.new_empty(B, H, Nq, dv),
        values.new_empty(B, H, Nq, 6),
        values.new_empty(B, H, Nq, 3, dtype=torch.float64),
    )


@torch.library.custom_op("lieattn::triton_attention_backward", mutates_args=())
def triton_attention_backward(
    group: str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    exclude_self: bool,
    margin: float,
    out: Tensor,
    coords: Tensor,
    kept: Tensor,
    d_out: Tensor,
    d_coords: Tensor,
    need_poses: bool,
    need_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query poses, key poses, values, weights and bias; those not needed are zero.

    `out`, `coords` and `kept` are the forward's.
    """
    B, H, Nk, _ = values.shape
    Nq = q_poses.shape[1]
    d_values = torch.zeros_like(values, memory_format=torch.contiguous_format)
    d_bias = torch.zeros_like(bias) if bias is not None else values.new_zeros(0)
    # One slice a head: sums in a fixed order, where atomics would make them vary.
    d_q, d_k = values.new_zeros(B, H, Nq, 6), values.new_zeros(B, H, Nk, 6)
    d_weights, spread = values.new_zeros(B, H, Nq, 6), values.new_zeros(B, H, Nq, 6)
    surplus = values.new_zeros(B, H, Nq)
    rows = features(group, q_poses), features(group, k_poses)
    if d_q.numel() and d_k.numel():
        from . import kernels

        launch = _Launch(group, *rows, values, weights, mask, bias, exclude_self, margin)
        # Along the output itself the softmax has no gradient.
        delta = (d_out * out).sum(-1) + (d_coords * coords).sum(-1)
        incoming = [
            d_out.contiguous(),
            d_coords.contiguous(),
            kept.contiguous(),
            delta.contiguous(),
        ]
        outgoing = [d_q, d_weights, spread, surplus, d_bias]
        launch(
            kernels.backward_queries,
            Nq,
            [*incoming, *outgoing],
            pair_strides(d_bias if need_bias else None, (B, H, Nq, Nk)),
            POSES=need_poses,
            BIAS_GRADIENT=need_bias,
        )
        launch(kernels.backward_keys, Nk, [*incoming, d_k, d_values], POSES=need_poses)
    return (
        pose_gradient(group, rows[0], d_q.sum(1), query=True),
        pose_gradient(group, rows[1], d_k.sum(1), query=False),
        d_values,
        # The gradients of a row's logits add up to 0. What they add up to beyond it is the rounding
        # of delta, which all keys of a row share and no sum over keys averages out.
        (d_weights + surplus[..., None] * spread).sum((0, 2)),
        d_bias,
    )


@triton_attention_backward.register_fake
def _gradient_shapes(
    group: str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    *_: Any,
) -> Any:
    like = (q_poses, k_poses, values, weights)
    gradients = tuple(x.new_empty(x.shape) for x in like)
    d_bias = torch.empty_like(bias) if bias is not None else values.new_empty(0)
    return (*gradients, d_bias)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    group, *tensors, exclude_self, margin = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[2])
    ctx.settings = group, exclude_self, margin


def _backward(ctx: Any, d_out: Tensor, d_coords: Tensor, _: Tensor | None) -> Any:
    *tensors, out, coords, kept = ctx.saved_tensors
    group, exclude_self, margin = ctx.settings
    _, need_q, need_k, *_, need_bias, _, _ = ctx.needs_input_grad
    dq, dk, d_values, d_weights, d_bias = triton_attention_backward(
        group,
        *tensors,
        exclude_self,
        margin,
        out,
        coords,
        kept,
        d_out,
        d_coords,
        need_q or need_k,
        need_bias,
    )
    return None, dq, dk, d_values, d_weights, None, d_bias if need_bias else None, None, None


triton_attention.register_autograd(_backward, setup_context=_save)


class _Launch:
    """The arguments that the three kernels share."""

    def __init__(
        self,
        group: str,
        q: Tensor,
        k: Tensor,
        values: Tensor,
        weights: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        exclude_self: bool,
        margin: float,
    ) -> None:
        B, H, Nk, dv = values.shape
        Nq = q.shape[-1]
        affine = FAMILIES[group].affine
        self.sets = B * H
        # Triton has no booleans in memory.
        mask = mask.view(torch.uint8) if mask is not None else None
        self.first = [q, k, values.contiguous(), weights.contiguous(), mask, bias]
        self.sizes = [H, Nq, Nk, dv]
        pairs = (B, H, Nq, Nk)
        self.strides = [*pair_strides(mask, pairs), *pair_strides(bias, pairs)]
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
            "BIAS": bias is not None,
            "EXCLUDE_SELF": exclude_self,
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
