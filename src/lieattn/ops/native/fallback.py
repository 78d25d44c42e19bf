"""What the CPU kernel leaves to the reference: poses that are not for it, second derivatives.

Arguments are those of the custom op `native_forward`, in its order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from ...groups import get_group
from .. import tiled
from ..request import Request

logger = logging.getLogger("lieattn")
_said: set[str] = set()

TOGETHER = 8  # sets of a block that has any for the reference

# Where the tensors that have gradients are among the arguments: poses, values, weights, bias.
DIFFERENTIABLE = (1, 2, 3, 4, 6)


def say() -> None:
    """Log once, at DEBUG level, that the kernel left sets to the reference."""
    message = (
        "native kernel passed over for some sets: poses, weights or biases that are not finite, "
        "not of the group, or too ill-conditioned for single precision."
    )
    if message not in _said:
        _said.add(message)
        logger.debug(message)


def blocks(sets: Tensor, count: int) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of a batch of `count` sets, and which sets of each the reference is to answer.

    Blocks always begin at the same sets: the last bits of the reference depend on the shape of a
    batch, and must not depend on which other sets are left to it.
    """
    for first in range(0, count, TOGETHER):
        inside = sets[(sets >= first) & (sets < first + TOGETHER)] - first
        if len(inside):
            yield slice(first, min(first + TOGETHER, count)), inside


def of_sets(arguments: Sequence[Any], sets: slice) -> tuple[Any, ...]:
    """The arguments for some sets of a batch; masks and biases may be shared by all sets."""
    group, q_poses, k_poses, values, weights, *pairs, exclude_self, margin = arguments
    own = (x if x is None or x.shape[0] == 1 else x[sets] for x in pairs)
    poses = q_poses[sets], k_poses[sets]
    return group, *poses, values[sets], weights, *own, exclude_self, margin


def answer(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The two sums, of the reference."""
    with torch.no_grad():
        return _run(arguments)


def gradients(
    arguments: Sequence[Any],
    d_out: Tensor,
    d_coords: Tensor,
    need_q: bool,
    need_k: bool,
    need_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the reference, as `native_backward` gives them."""
    needs = need_q, need_k, True, True, need_bias
    leaves = _leaves(arguments, needs, fresh=True)

    def work() -> list[Tensor]:
        return _first(arguments, leaves, d_out, d_coords, create_graph=False)

    # A thread of its own: inside a custom op nothing is recorded for derivatives.
    with ThreadPoolExecutor(1) as thread:
        found = iter(thread.submit(work).result())
    empty = d_out.new_empty(0)
    d_q, d_k, d_values, d_weights, d_bias = (
        empty.clone() if x is None else next(found).contiguous() for x in leaves
    )
    return d_q, d_k, d_values, d_weights, d_bias


def second_derivatives(
    arguments: Sequence[Any],
    d_out: Tensor,
    d_coords: Tensor,
    needs: tuple[bool, bool, bool],
    cotangents: tuple[Tensor, ...],
) -> list[Tensor | None]:
    """Derivatives of the gradients by poses, values, weights, bias, `d_out` and `d_coords`."""
    need_q, need_k, need_bias = needs
    wanted = need_q, need_k, True, True, need_bias
    again = torch.is_grad_enabled()  # in a backward pass: this will be differentiated itself
    with torch.enable_grad():
        leaves = _leaves(arguments, wanted, fresh=not again)
        incoming = [x.view_as(x) if again else x.detach() for x in (d_out, d_coords)]
        incoming = [x if x.requires_grad else x.requires_grad_() for x in incoming]
        first = _first(arguments, leaves, *incoming, create_graph=True)
        given = [c for c, x in zip(cotangents, leaves, strict=True) if x is not None]
        reached = [(x, c) for x, c in zip(first, given, strict=True) if x.requires_grad]
        sources = [x for x in (*leaves, *incoming) if x is not None]
        found = iter(
            torch.autograd.grad(
                [x for x, _ in reached],
                sources,
                [c for _, c in reached],
                allow_unused=True,
                create_graph=again,
            )
        )
    return [None if x is None else next(found) for x in (*leaves, *incoming)]


def _leaves(
    arguments: Sequence[Any], wanted: tuple[bool, ...], *, fresh: bool
) -> list[Tensor | None]:
    """The tensors to differentiate by, each a tensor of its own: queries and keys may be one."""
    leaves: list[Tensor | None] = []
    for place, yes in zip(DIFFERENTIABLE, wanted, strict=True):
        x = arguments[place] if yes else None
        if x is not None:
            x = x.detach() if fresh or not x.requires_grad else x.view_as(x)
            x = x if x.requires_grad else x.requires_grad_()
        leaves.append(x)
    return leaves


def _first(
    arguments: Sequence[Any],
    leaves: list[Tensor | None],
    d_out: Tensor,
    d_coords: Tensor,
    *,
    create_graph: bool,
) -> list[Tensor]:
    """Gradients by those leaves that there are."""
    replaced = list(arguments)
    for place, x in zip(DIFFERENTIABLE, leaves, strict=True):
        replaced[place] = replaced[place] if x is None else x
    return list(
        torch.autograd.grad(
            _run(replaced),
            [x for x in leaves if x is not None],
            (d_out, d_coords),
            allow_unused=True,
            materialize_grads=True,
            create_graph=create_graph,
        )
    )


def _run(arguments: Sequence[Any]) -> tuple[Tensor, Tensor]:
    group, *tensors, exclude_self, margin = arguments
    q_poses, k_poses, values, weights, mask, bias = tensors
    asked = q_poses, k_poses, values, weights, mask, bias, exclude_self
    return tiled.run(Request(get_group(group), *asked, margin=margin))
