"""What the CPU kernel leaves to the reference: poses that are not for it, second derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from ...groups import get_group
from .. import tiled
from .._custom import Cotangents, Gradients, Needs
from .._derivatives import gradients_by_name, leaves_of
from ..dispatch import log_once
from ..request import Operands, Request

TOGETHER = 8  # sets of a block that has any for the reference


def log() -> None:
    """Log once, at DEBUG level, that the kernel left sets to the reference."""
    log_once(
        "native kernel passed over for some sets: poses, weights or biases that are not finite, "
        "not of the group, or too ill-conditioned for single precision."
    )


def blocks(sets: Tensor, count: int) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of a batch of `count` sets, and which sets of each the reference is to answer.

    Blocks always begin at the same sets: the last bits of the reference depend on the shape of a
    batch, and must not depend on which other sets are left to it.
    """
    for first in range(0, count, TOGETHER):
        inside = sets[(sets >= first) & (sets < first + TOGETHER)] - first
        if len(inside):
            yield slice(first, min(first + TOGETHER, count)), inside


def of_sets(x: Operands, sets: slice) -> Operands:
    """The operands of some sets of a batch; masks and biases may be shared by all sets."""
    pairs = (y if y is None or y.shape[0] == 1 else y[sets] for y in (x.mask, x.bias))
    own = x.q_poses[sets], x.k_poses[sets], x.values[sets]
    return x.with_tensors([*own, x.weights, *pairs])


def answer(x: Operands) -> tuple[Tensor, Tensor]:
    """The two sums, of the reference."""
    with torch.no_grad():
        return tiled.run(_request(x))


def gradients(x: Operands, incoming: Cotangents, needs: Needs) -> Gradients:
    """Gradients of the reference, as those of the kernel."""
    request = _request(x)

    def work() -> dict[str, Tensor]:
        leaves = leaves_of(request, _wanted(x, needs))
        return gradients_by_name(tiled.run, request, leaves, incoming, create_graph=False)

    # A thread of its own: inside a custom op nothing is recorded for derivatives.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(work).result()
    empty = incoming.out.new_empty(0)
    parts = (found.get(name) for name in Gradients._fields)
    return Gradients(*(empty.clone() if y is None else y.contiguous() for y in parts))


def second_derivatives(
    x: Operands, incoming: Cotangents, needs: Needs, given: Sequence[Tensor]
) -> list[Tensor | None]:
    """Derivatives of the gradients by poses, values, weights, bias and both cotangents."""
    request, again = _request(x), torch.is_grad_enabled()
    with torch.enable_grad():
        leaves = leaves_of(request, _wanted(x, needs), connected=again)
        own = [y.view_as(y) if again else y.detach() for y in incoming]
        own = [y if y.requires_grad else y.requires_grad_() for y in own]
        first = gradients_by_name(tiled.run, request, leaves, own, create_graph=True)
        by_name = dict(zip(Gradients._fields, given, strict=True))
        reached = {name: y for name, y in first.items() if y.requires_grad}
        found = iter(
            torch.autograd.grad(
                list(reached.values()),
                [*leaves.values(), *own],
                [by_name[name] for name in reached],
                allow_unused=True,
                create_graph=again,
            )
        )
    return [next(found) if name in leaves else None for name in Gradients._fields] + list(found)


def _wanted(x: Operands, needs: Needs) -> list[str]:
    """Names of the operands that need gradients, in the order of `Gradients`."""
    needed = needs._asdict() | {"bias": needs.bias and x.bias is not None}
    return [name for name in Gradients._fields if needed.get(name, True)]


def _request(x: Operands) -> Request:
    return Request(get_group(x.group), *x[1:8], margin=x.margin)
