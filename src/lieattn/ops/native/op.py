"""The CPU kernel as custom ops of torch: forward, backward, their shapes for tracing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .call import DIMS, Call
from .fallback import answer, blocks, gradients, of_sets, say, second_derivatives
from .library import Gradients


def forward(
    group: str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    exclude_self: bool,
    margin: float,
    prune: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of values and coordinates, and what normalised their weights.

    Args:
        group: a name in `CODES` of `_native_call`.
        q_poses: `[B, Nq, m, m]`, float32, as all that follow.
        k_poses: `[B, Nk, m, m]`.
        values: `[B, H, Nk, dv]`.
        weights: `[H, K]`.
        mask, bias: four dimensions that broadcast to `[B, H, Nq, Nk]`.
        exclude_self, margin, prune: as for `lie_attention`.
    Returns:
        `[B, H, Nq, dv]`, `[B, H, Nq, C]` and `[B, H, Nq, 3]`: the largest logit, one over the sum
        of weights, and the squared distance from which on keys were left out.
    """
    results = _shapes(group, q_poses, k_poses, values)
    call = Call(group, q_poses, k_poses, values, weights, mask, bias, exclude_self, margin, prune)
    out, coords, normaliser = results
    if call.empty:
        return out.zero_(), coords.zero_(), normaliser.zero_()
    arguments = group, q_poses, k_poses, values, weights, mask, bias, exclude_self, margin
    if not call.fits:
        say()
        return *answer(*arguments), normaliser.zero_()
    if call.library.forward(call.problem, *(x.data_ptr() for x in results)):
        return results
    say()
    sets = call.unfit_sets()
    for block, unfit in blocks(sets, len(out)):
        for x, found in zip((out, coords), answer(*of_sets(arguments, block)), strict=True):
            x[block][unfit] = found[unfit]
    normaliser[sets] = 0
    return results


native_forward = torch.library.custom_op(
    "lieattn::native_forward", forward, mutates_args=(), device_types="cpu"
)


@native_forward.register_fake
def _shapes(
    group: str, q_poses: Tensor, k_poses: Tensor, values: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    B, H, _Nk, dv = values.shape
    Nq = q_poses.shape[1]
    return (
        values.new_empty((B, H, Nq, dv)),
        values.new_empty((B, H, Nq, DIMS[group])),
        values.new_empty((B, H, Nq, 3)),
    )


@torch.library.custom_op("lieattn::native_backward", mutates_args=(), device_types="cpu")
def native_backward(
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
    normaliser: Tensor,
    d_out: Tensor,
    d_coords: Tensor,
    need_q: bool,
    need_k: bool,
    need_bias: bool,
    prune: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query poses, key poses, values, weights and bias; empty where not needed.

    `out`, `coords` and `normaliser` are the forward's.
    """
    needs = need_q, need_k, need_bias
    found = _gradient_shapes(
        group, q_poses, k_poses, values, weights, mask, bias, exclude_self, margin, *needs
    )
    if need_bias and bias is not None:
        bias = bias.contiguous()  # its gradient has the same strides
    call = Call(group, q_poses, k_poses, values, weights, mask, bias, exclude_self, margin, prune)
    if call.empty:
        return tuple(x.zero_() for x in found)  # type: ignore[return-value]
    arguments = group, q_poses, k_poses, values, weights, mask, bias, exclude_self, margin
    if not call.fits:
        say()
        return gradients(arguments, d_out, d_coords, *needs)
    d_out, d_coords = d_out.contiguous(), d_coords.contiguous()
    d_q, d_k, d_values, d_weights, d_bias = found
    # A bias that is the same for all keys has no gradient: the softmax cancels it.
    summed = need_bias and d_bias.shape[-1] > 1
    copies = call.bias_copies(d_bias) if summed else d_bias
    for x in (d_q, d_k, copies):
        x.zero_()
    passed = Gradients(
        *(x.data_ptr() for x in (out, coords, normaliser, d_out, d_coords, d_values, d_weights)),
        d_q.data_ptr() if need_q else None,
        d_k.data_ptr() if need_k else None,
        copies.data_ptr() if summed else None,
        0 if copies is d_bias else d_bias.numel(),
    )
    all_fit = call.library.backward(call.problem, passed)
    if copies is not d_bias:
        d_bias = copies.sum(0)
    if all_fit:
        return d_q, d_k, d_values, d_weights, d_bias
    say()
    for block, unfit in blocks(call.unfit_sets(), len(d_out)):
        by_out, by_coords = torch.zeros_like(d_out[block]), torch.zeros_like(d_coords[block])
        by_out[unfit], by_coords[unfit] = d_out[block][unfit], d_coords[block][unfit]
        rest = gradients(of_sets(arguments, block), by_out, by_coords, *needs)
        for x, part, need in zip((d_q, d_k, d_values), rest, (need_q, need_k, True), strict=False):
            if need:
                x[block][unfit] = part[unfit]
        d_weights += rest[3]
        if need_bias and bias is not None:
            d_bias[block if bias.shape[0] > 1 else slice(None)] += rest[4]
    return d_q, d_k, d_values, d_weights, d_bias


@native_backward.register_fake
def _backward_shapes(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _gradient_shapes(*arguments[:9], *arguments[14:17])


def _gradient_shapes(
    group: str,
    q_poses: Tensor,
    k_poses: Tensor,
    values: Tensor,
    weights: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    exclude_self: bool,
    margin: float,
    need_q: bool,
    need_k: bool,
    need_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    needs = ((q_poses, need_q), (k_poses, need_k), (values, True), (weights, True))
    d_q, d_k, d_values, d_weights = (
        x.new_empty(x.shape) if need else x.new_empty(0) for x, need in needs
    )
    d_bias = values.new_empty(bias.shape if need_bias and bias is not None else 0)
    return d_q, d_k, d_values, d_weights, d_bias


# ---- derivatives -------------------------------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    group, *tensors, exclude_self, margin, prune = inputs
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*tensors, *output)
    ctx.settings = group, exclude_self, margin, prune


def _backward(ctx: Any, d_out: Tensor, d_coords: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, out, coords, normaliser = ctx.saved_tensors
    group, exclude_self, margin, prune = ctx.settings
    # By place: torch leaves arguments away that have their default.
    need_q, need_k, need_bias = (ctx.needs_input_grad[i] for i in (1, 2, 6))
    results = out, coords, normaliser, d_out, d_coords
    needs = need_q, need_k, need_bias
    d_q, d_k, d_values, d_weights, d_bias = native_backward(
        group, *tensors, exclude_self, margin, *results, *needs, prune
    )
    return (
        None,
        d_q if need_q else None,
        d_k if need_k else None,
        d_values,
        d_weights,
        None,
        d_bias if need_bias else None,
        None,
        None,
        None,
    )


native_forward.register_autograd(_backward, setup_context=_save)


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    group, *tensors, exclude_self, margin = inputs[:9]
    ctx.save_for_backward(*tensors, *inputs[12:14])
    ctx.settings, ctx.needs = (group, exclude_self, margin), inputs[14:17]


def _backward_of_backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, d_out, d_coords = ctx.saved_tensors
    group, exclude_self, margin = ctx.settings
    arguments = group, *tensors, exclude_self, margin
    found = second_derivatives(arguments, d_out, d_coords, ctx.needs, cotangents)
    q, k, values, weights, bias, of_out, of_coords = found
    # out, coords and the normaliser are functions of the inputs, whose derivatives hold theirs.
    inputs = (None, q, k, values, weights, None, bias, None, None)
    return *inputs, None, None, None, of_out, of_coords, None, None, None, None


native_backward.register_autograd(_backward_of_backward, setup_context=_save_backward)
