"""A function of a request computed for blocks of its queries, forwards and backwards.

An autograd function of its own rather than `torch.utils.checkpoint`: a checkpoint keeps the graph
of every block, about half a megabyte, and the number of blocks grows with the square of N.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .._core.tensors import transformed
from ._derivatives import Function, Sums, gradients_by_name, leaves_of, tensors_of, with_tensors
from .request import Request

# Where the queries are in the fields that have any.
ROWS = {"q_poses": -3, "mask": -2, "bias": -2, "neighbours": -2, "q_content": -2}


def by_blocks(function: Function, request: Request, rows: int) -> Sums:
    """`function(request)`, computed for `rows` queries at a time and joined."""
    if transformed():
        return _joined(function, request, rows)
    if torch.is_grad_enabled() and not isinstance(request.weights, Tensor | nn.Module):
        # The parameters of a plain function are unknown, but a checkpoint finds them.
        def again(block: Request) -> Sums:
            return checkpoint(function, block, use_reentrant=False)

        return _joined(again, request, rows)
    tensors = tensors_of(request)
    return _ByBlocks.apply(function, request, rows, tuple(tensors), *tensors.values())


def _blocks(request: Request, rows: int) -> Iterator[Request]:
    """The same request for `rows` queries at a time."""
    starts = range(0, request.queries, rows)
    parts = (_split(getattr(request, x), rows, request.queries, ROWS[x]) for x in ROWS)
    for first, *block in zip(starts, *parts, strict=False):
        own: dict[str, Any] = dict(zip(ROWS, block, strict=True))
        yield replace(request, first=request.first + first, **own)


def _split(x: Tensor | None, rows: int, queries: int, dim: int) -> Iterator[Tensor | None]:
    """Blocks of the queries of x; what broadcasts over them is the same in every block.

    `split`, not slices: the gradient of a slice is as large as all of x, and there would be one
    for every block.
    """
    if x is None or x.dim() < -dim or x.shape[dim] != queries:
        return repeat(x)
    return iter(x.split(rows, dim=dim))


def _joined(function: Function, request: Request, rows: int) -> Sums:
    first, second = zip(*(function(block) for block in _blocks(request, rows)), strict=True)
    return torch.cat(first, dim=-2), torch.cat(second, dim=-2)


def _written(function: Function, request: Request, rows: int) -> Sums:
    """`_joined` without a list of results, which would fragment the memory.

    Small results lie between large temporaries, and the allocator cannot join the holes: 1.5 GB
    for 2048 blocks with 8192 keys, against 21 MB.
    """
    results: list[Tensor] = []
    for block in _blocks(request, rows):
        parts = function(block)
        if not results:
            results = [x.new_empty(*x.shape[:-2], request.queries, x.shape[-1]) for x in parts]
        start = block.first - request.first
        for whole, part in zip(results, parts, strict=True):
            whole.narrow(-2, start, part.shape[-2]).copy_(part)
    first, second = results
    return first, second


class _ByBlocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: Function,
        request: Request,
        rows: int,
        names: tuple[str, ...],
        *tensors: Tensor,
    ) -> Sums:
        ctx.function, ctx.request, ctx.rows, ctx.names = function, request, rows, names
        ctx.save_for_backward(*tensors)
        ctx.random = _random_state(request)
        return _written(function, request, rows)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        saved = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        request = with_tensors(ctx.request, saved)
        wanted = [n for n, yes in zip(ctx.names, ctx.needs_input_grad[4:], strict=True) if yes]
        total = {name: torch.zeros_like(saved[name]) for name in wanted}
        twice = torch.is_grad_enabled()  # in a backward pass: it will be differentiated itself
        with _drawing_again(ctx.random):
            rows = zip(*(x.split(ctx.rows, dim=-2) for x in cotangents), strict=True)
            for block, of_rows in zip(_blocks(request, ctx.rows), rows, strict=True):
                leaves = leaves_of(block, wanted, connected=twice)
                found = gradients_by_name(ctx.function, block, leaves, of_rows, create_graph=twice)
                own, start = tensors_of(block), block.first - request.first
                for name, x in found.items():
                    part = total[name]
                    if own[name] is not saved[name]:  # rows of the block's own
                        part = part.narrow(ROWS[name], start, x.shape[ROWS[name]])
                    part.add_(x)
        return None, None, None, None, *(total.get(name) for name in ctx.names)


# ---- random numbers ----------------------------------------------------------------------------


def _random_state(request: Request) -> tuple[torch.device, Tensor, Tensor | None] | None:
    """State of the generators where a score may draw from them, as with dropout."""
    if isinstance(request.weights, Tensor):
        return None
    device = request.q_poses.device
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return device, torch.get_rng_state(), on_device


@contextmanager
def _drawing_again(state: tuple[torch.device, Tensor, Tensor | None] | None) -> Iterator[None]:
    """Random numbers as they were drawn in the forward pass, and others untouched."""
    if state is None:
        yield
        return
    device, on_cpu, on_device = state
    with torch.random.fork_rng([] if on_device is None else [device]):
        torch.set_rng_state(on_cpu)
        if on_device is not None:
            torch.cuda.set_rng_state(on_device, device)
        yield
