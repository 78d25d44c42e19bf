"""Tensors of a request by name, and derivatives of a function of a request by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .request import Request

Sums = tuple[Tensor, Tensor]
Function = Callable[[Request], Sums]  # from a request to two tensors [..., Nq, C]

SCORE = "score."  # before the names of its parameters


class BoundScore(nn.Module):
    """A score with other parameters than its own."""

    def __init__(self, score: nn.Module, bound: dict[str, Tensor]) -> None:
        super().__init__()
        self.score, self.bound = score, bound
        self.squares = getattr(score, "squares", False)

    def forward(self, coords: Tensor) -> Tensor:
        return functional_call(self.score, self.bound, (coords,))


def tensors_of(request: Request) -> dict[str, Tensor]:
    """Every tensor of a request, the parameters of its score among them."""
    named = {field.name: getattr(request, field.name) for field in fields(request)}
    tensors = {name: x for name, x in named.items() if isinstance(x, Tensor)}
    score = request.weights
    if isinstance(score, BoundScore):
        tensors |= {SCORE + name: x for name, x in score.bound.items()}
    elif isinstance(score, nn.Module):
        tensors |= {SCORE + name: x for name, x in score.named_parameters()}
    return tensors


def with_tensors(request: Request, tensors: dict[str, Tensor]) -> Request:
    """The request with other tensors in the place of those of the same names."""
    own: dict[str, Any] = {n: x for n, x in tensors.items() if not n.startswith(SCORE)}
    score = request.weights
    if not isinstance(score, nn.Module):
        return replace(request, **own)
    bound = {n.removeprefix(SCORE): x for n, x in tensors.items() if n.startswith(SCORE)}
    inner = score.score if isinstance(score, BoundScore) else score
    return replace(request, weights=BoundScore(inner, bound), **own)


def leaves_of(
    request: Request, wanted: Iterable[str], *, connected: bool = False
) -> dict[str, Tensor]:
    """The named tensors to differentiate by, each one of its own: queries and keys may be one.

    With `connected` they stay in the graph, so that the gradients can be differentiated in turn.
    """
    tensors, leaves = tensors_of(request), {}
    for name in wanted:
        x = tensors[name]
        x = x.view_as(x) if connected and x.requires_grad else x.detach()
        leaves[name] = x if x.requires_grad else x.requires_grad_()
    return leaves


def gradients_by_name(
    function: Function,
    request: Request,
    leaves: dict[str, Tensor],
    cotangents: Sequence[Tensor],
    *,
    create_graph: bool,
) -> dict[str, Tensor]:
    """Derivatives of the two sums of a request by the leaves, zeros where there is no path."""
    with torch.enable_grad():
        results = function(with_tensors(request, tensors_of(request) | leaves))
    reached = [(x, c) for x, c in zip(results, cotangents, strict=True) if x.requires_grad]
    found = torch.autograd.grad(
        [x for x, _ in reached],
        list(leaves.values()),
        [c for _, c in reached],
        allow_unused=True,
        materialize_grads=True,
        create_graph=create_graph,
    )
    return dict(zip(leaves, found, strict=True))
