"""Kernels as custom operators of torch: schemas, shapes for tracing, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .request import Operands

_OPERANDS = (
    "str group, Tensor q_poses, Tensor k_poses, Tensor values, Tensor weights, "
    "Tensor? mask, Tensor? bias, bool exclude_self, float margin, float prune"
)
_RESULTS = "Tensor out, Tensor coords, Tensor kept, Tensor d_out, Tensor d_coords"
_NEEDS = "bool need_q_poses, bool need_k_poses, bool need_bias"


class Results(NamedTuple):
    """What a kernel returns."""

    out: Tensor  # [B, H, Nq, dv]
    coords: Tensor  # [B, H, Nq, C]
    kept: Tensor  # [B, H, Nq, 3], for the backward pass; it has no gradient


class Cotangents(NamedTuple):
    """Gradients of the results."""

    out: Tensor
    coords: Tensor


class Needs(NamedTuple):
    """Which gradients are needed besides those of values and weights."""

    q_poses: bool
    k_poses: bool
    bias: bool


class Gradients(NamedTuple):
    """Gradients of the operands; empty where they are not needed."""

    q_poses: Tensor
    k_poses: Tensor
    values: Tensor
    weights: Tensor
    bias: Tensor


# Arguments of a backward pass, grouped.
Backward = Callable[[Operands, Results, Cotangents, Needs], Gradients]
# Gradients of the gradients by poses, values, weights, bias and both cotangents, given those of the
# gradients themselves.
Second = Callable[[Operands, Cotangents, Needs, Sequence[Tensor]], "list[Tensor | None]"]


def empty_gradients(x: Operands, needs: Needs) -> Gradients:
    """Gradients of the right shapes, not filled in."""
    q_poses = x.q_poses.shape if needs.q_poses else (0,)
    k_poses = x.k_poses.shape if needs.k_poses else (0,)
    bias = x.bias.shape if needs.bias and x.bias is not None else (0,)
    shapes = q_poses, k_poses, x.values.shape, x.weights.shape, bias
    return Gradients(*map(x.values.new_empty, shapes))


def operator(
    name: str,
    forward: Callable[[Operands], Results],
    shapes: Callable[[Operands], Results],
    backward: Backward,
    second: Second | None = None,
    devices: str | None = None,
) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """A kernel as an operator that takes the fields of `Operands`.

    Args:
        name: the operators are `lieattn::<name>_forward` and `lieattn::<name>_backward`.
        forward, backward: the kernel.
        shapes: empty results, for tracing.
        second: derivatives of the backward pass; without it torch refuses them.
        devices: the type of device that the kernel runs on; None for any.
    """
    forwards = _define(f"{name}_forward", f"{_OPERANDS}=0.0", 3, devices)(
        lambda *flat: forward(Operands(*flat))
    )
    forwards.register_fake(lambda *flat: shapes(Operands(*flat)))
    backwards = _define(f"{name}_backward", f"{_OPERANDS}, {_RESULTS}, {_NEEDS}", 5, devices)(
        lambda *flat: backward(*_grouped(flat))
    )

    @backwards.register_fake
    def _(*flat: Any) -> Gradients:
        x, _results, _cotangents, needs = _grouped(flat)
        return empty_gradients(x, needs)

    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x = Operands(*inputs)
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*x.tensors, *output)
        ctx.operands = x.with_tensors([None] * 6)

    def differentiate(ctx: Any, d_out: Tensor, d_coords: Tensor, _: Tensor) -> tuple[Any, ...]:
        x, results = ctx.operands.with_tensors(ctx.saved_tensors[:6]), ctx.saved_tensors[6:]
        # By place: torch leaves out arguments that have their default.
        needs = Needs(*(ctx.needs_input_grad[i] for i in (1, 2, 6)))
        found = Gradients(*backwards(*x, *results, d_out, d_coords, *needs))
        d_q, d_k, d_values, d_weights, d_bias = found
        d_poses = d_q if needs.q_poses else None, d_k if needs.k_poses else None
        d_pairs = None, d_bias if needs.bias else None
        return None, *d_poses, d_values, d_weights, *d_pairs, None, None, None

    forwards.register_autograd(differentiate, setup_context=save)
    if second is not None:
        _register_second(backwards, second)
    return forwards


def _define(name: str, arguments: str, results: int, devices: str | None) -> Callable[[Any], Any]:
    """A decorator that makes an operator of a function."""
    schema = f"({arguments}) -> ({', '.join(['Tensor'] * results)})"
    return torch.library.custom_op(
        f"lieattn::{name}", mutates_args=(), device_types=devices, schema=schema
    )


def _grouped(flat: Sequence[Any]) -> Any:
    """Arguments of the backward operator as `Backward` takes them."""
    rest: Iterator[Any] = iter(flat)
    kinds: tuple[Any, ...] = (Operands, Results, Cotangents, Needs)
    return tuple(kind(*islice(rest, len(kind._fields))) for kind in kinds)


def _register_second(backwards: Any, second: Second) -> None:
    def save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, _results, cotangents, ctx.needs = _grouped(inputs)
        ctx.save_for_backward(*x.tensors, *cotangents)
        ctx.operands = x.with_tensors([None] * 6)

    def differentiate(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, d_out, d_coords = ctx.saved_tensors
        x, incoming = ctx.operands.with_tensors(tensors), Cotangents(d_out, d_coords)
        *found, bias, of_out, of_coords = second(x, incoming, ctx.needs, given)
        # The results are functions of the operands, whose derivatives hold theirs.
        inputs = None, *found, None, bias, None, None, None
        return *inputs, None, None, None, of_out, of_coords, None, None, None

    backwards.register_autograd(differentiate, setup_context=save)
