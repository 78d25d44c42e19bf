"""`Request`: what the operator was asked for, after its checks, as every backend gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .._core.tensors import common_batch
from ..geometry.pairs import Relations, divide, relate
from ..groups import Group

Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Request:
    """One call of the operator. Shapes fit together; a backend need not check them again.

    A backend is a module with `ANSWERS`, the names of the fields that it knows, `unsupported`,
    from a request to a reason in one sentence or None, and `run`, which gives `sum_j a_ij v_j` and
    `sum_j a_ij w_ij`. A field that has its default asks for nothing. `dispatch` refuses a request
    that uses a field which the backend does not name, so a new field starts out refused by all.
    """

    group: Group
    q_poses: Tensor  # [..., Nq, m, m]
    k_poses: Tensor  # [..., Nk, m, m]
    values: Tensor  # [..., H, Nk, dv]
    weights: Tensor | Logits  # [H, K] of the chart's blocks; or from coordinates to logits
    mask: Tensor | None = None  # boolean, broadcasts to [..., H, Nq, Nk]
    bias: Tensor | None = None  # broadcasts to [..., H, Nq, Nk]; -inf masks
    exclude_self: bool = False
    chart: str = "principal"
    neighbours: Tensor | None = None  # [..., Nq, k], -1 for none; k then stands for Nk above
    margin: float = 0.0
    q_content: Tensor | None = None  # [..., H, Nq, c], and for the keys, whose products
    k_content: Tensor | None = None  # [..., H, Nk, c], are added to the logits
    scale: Tensor | None = None  # [..., 1, dim], one number a block: w is divided by it
    dtype: torch.dtype | None = None  # of w after the logarithm, if not that of the poses
    prune: float = 0.0  # share of a row's weights that a backend may leave out, none has to
    first: int = 0  # the key that is query 0 itself: a block of queries starts further on

    @property
    def used(self) -> list[str]:
        """Names of the fields that ask for something: those that differ from their default."""
        kind, names = type(self), [field.name for field in fields(self)]
        # Defaults are attributes of the class; torch cannot compile `field.default`.
        return [
            name
            for name in names
            if not hasattr(kind, name) or _differs(getattr(self, name), getattr(kind, name))
        ]

    @property
    def queries(self) -> int:
        """Nq."""
        return self.q_poses.shape[-3]

    @property
    def batch(self) -> torch.Size:
        """What the batches of poses, values and lists broadcast to."""
        shapes = [self.q_poses.shape[:-3], self.k_poses.shape[:-3], self.values.shape[:-3]]
        if self.neighbours is not None:
            shapes.append(self.neighbours.shape[:-2])
        batch = common_batch(*shapes)
        if batch is None:
            raise ValueError(f"poses, values and lists must have one batch, got {shapes}.")
        return batch

    @property
    def pairs_of_a_query(self) -> int:
        """Pairs that each query has over the whole batch."""
        lists = self.neighbours
        keys = self.k_poses.shape[-3] if lists is None else lists.shape[-1]
        return self.batch.numel() * keys

    def relations(self) -> Relations:
        """w and where it exists, of all pairs at once."""
        coords, valid = relate(
            self.group,
            self.q_poses,
            self.k_poses,
            self.chart,
            self.neighbours,
            self.exclude_self,
            self.margin,
            self.first,
        )
        if self.scale is not None:
            coords = divide(self.group, coords, self.scale)
        return Relations(coords if self.dtype is None else coords.to(self.dtype), valid)

    def blocks(self, rows: int) -> Iterator[Request]:
        """The same request for `rows` queries at a time."""
        starts = range(0, self.queries, rows)
        parts = [_split(getattr(self, name), rows, self.queries, dim) for name, dim in ROWS.items()]
        for first, *block in zip(starts, *parts, strict=False):
            own: dict[str, Any] = dict(zip(ROWS, block, strict=True))
            yield replace(self, first=self.first + first, **own)


def _differs(value: object, default: object) -> bool:
    if value is None or default is None:
        return value is not default
    return value != default


# Where the queries are in what has any.
ROWS = {"q_poses": -3, "mask": -2, "bias": -2, "neighbours": -2, "q_content": -2}


def _split(x: Tensor | None, rows: int, queries: int, dim: int) -> Iterator[Tensor | None]:
    """Blocks of the queries of x; what broadcasts over them is the same in every block.

    `split`, not slices: the gradient of a slice is as large as all of x, and there would be one
    for every block.
    """
    if x is None or x.dim() < -dim or x.shape[dim] != queries:
        return repeat(x)
    return iter(x.split(rows, dim=dim))


# ---- all tensors of a request, by name ---------------------------------------------------------

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
