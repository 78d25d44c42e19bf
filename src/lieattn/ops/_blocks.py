"""A function of a request computed block by block, forwards and backwards.

An autograd function of its own rather than `torch.utils.checkpoint`: that one keeps the graph of
every block, about half a megabyte, and the number of blocks grows with the square of N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .._core.tensors import transformed
from .request import ROWS, Request, tensors_of, with_tensors

Results = tuple[Tensor, Tensor]
Function = Callable[[Request], Results]  # from a request to two tensors [..., Nq, C]


def by_blocks(function: Function, request: Request, rows: int) -> Results:
    """`function(request)`, computed for `rows` queries at a time and joined."""
    if transformed():
        return _joined(function, request, rows)
    if torch.is_grad_enabled() and not isinstance(request.weights, Tensor | nn.Module):
        # Nobody knows what parameters a mere function holds, but a checkpoint finds them.
        def again(block: Request) -> Results:
            return checkpoint(function, block, use_reentrant=False)

        return _joined(again, request, rows)
    tensors = tensors_of(request)
    return _ByBlocks.apply(function, request, rows, tuple(tensors), *tensors.values())


def _joined(function: Function, request: Request, rows: int) -> Results:
    first, second = zip(*(function(block) for block in request.blocks(rows)), strict=True)
    return torch.cat(first, dim=-2), torch.cat(second, dim=-2)


def _written(function: Function, request: Request, rows: int) -> Results:
    """`_joined` without a list of results, between which memory would fall to pieces.

    Small results lie between large temporaries, and the allocator cannot join the holes: 1.5 GB
    for 2048 blocks with 8192 keys, against 21 MB.
    """
    results: list[Tensor] = []
    for block in request.blocks(rows):
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
    ) -> Results:
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
        with _drawing_again(ctx.random):
            rows = zip(*(x.split(ctx.rows, dim=-2) for x in cotangents), strict=True)
            for block, of_rows in zip(request.blocks(ctx.rows), rows, strict=True):
                found = _gradients(ctx.function, block, wanted, of_rows)
                own, start = tensors_of(block), block.first - request.first
                for name, x in found.items():
                    part = total[name]
                    if own[name] is not saved[name]:  # rows of the block's own
                        part = part.narrow(ROWS[name], start, x.shape[ROWS[name]])
                    part.add_(x)
        return None, None, None, None, *(total.get(name) for name in ctx.names)


def _gradients(
    function: Function, block: Request, wanted: list[str], cotangents: tuple[Tensor, ...]
) -> dict[str, Tensor]:
    """Derivatives of a block by the tensors of the given names."""
    tensors = tensors_of(block)
    twice = torch.is_grad_enabled()  # in a backward pass: it will be differentiated itself
    with torch.enable_grad():
        for name in wanted:
            x = tensors[name]
            # Queries and keys may be one tensor; each has its own part of the gradient.
            tensors[name] = x.view_as(x) if twice else x.detach().requires_grad_()
        leaves = [tensors[name] for name in wanted]
        results = function(with_tensors(block, tensors))
        reached = [(x, c) for x, c in zip(results, cotangents, strict=True) if x.requires_grad]
        found = torch.autograd.grad(
            [x for x, _ in reached],
            leaves,
            [c for _, c in reached],
            allow_unused=True,
            materialize_grads=True,
            create_graph=twice,
        )
    return dict(zip(wanted, found, strict=True))


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
