"""Relations of the pairs of a set for all layers of a transformer, and their scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .._core.masks import both, pair_mask
from .._core.small import widen
from .._core.tensors import island
from ..geometry.pairs import (
    DeferredRelations,
    Relations,
    divide,
    relate,
    require_neighbours,
)
from ..groups import Group
from ..ops import Request, sums_by_rows
from ..ops.policy import keeps_relations
from ..scores import Score
from .config import LieTransformerConfig

SMALLEST_SCALE = 0.01


class Gather(Protocol):
    """Communication between processes that each hold some tokens of a set."""

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """Tokens of all processes from those of this one, which come first."""

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes."""


@dataclass(frozen=True)
class Pairing:
    """Which pairs of a set attend, and whether their relations are kept or deferred.

    Attributes:
        tokens: `[..., N]`, True = real token; None for all.
        pairs: `[..., N, N]`, True where token i may attend to token j; None for all.
        neighbours: `[..., N, k]`, the tokens that each one attends to; None for all.
        gather: collects the keys of all processes, where each holds some of the tokens.
        bias: what layers add to the logits.
    """

    group: Group
    config: LieTransformerConfig
    tokens: Tensor | None = None
    pairs: Tensor | None = None
    neighbours: Tensor | None = None
    gather: Gather | None = None
    bias: Tensor | None = None

    def related(
        self, g: Tensor, weights: Tensor | Score, dtype: torch.dtype
    ) -> tuple[Relations | DeferredRelations, Tensor | None]:
        """Relations of poses `g`, and the scales that w is divided by, `[..., 1, dim]`.

        Args:
            g: the poses, `[..., N, m, m]`.
            weights, dtype: what layers pass to the operator, and the dtype of their states.
        """
        config, neighbours = self.config, self.neighbours
        if self.gather is None and keeps_relations(
            self.group,
            g,
            weights,
            chart=config.chart,
            dtype=dtype,
            bias=self.bias,
            neighbours=neighbours,
            content=config.content,
            scaled=config.normalise,
        ):
            return self.kept(g)
        rel = self._deferred(g)
        if not self.config.normalise:
            return rel, None
        scales = self._deferred_scales(rel)
        return rel._replace(scale=scales), scales

    def kept(self, g: Tensor) -> tuple[Relations, Tensor | None]:
        """Relations computed once, and the scales they were divided by."""
        config = self.config
        rel = self._restricted(g, config.chart, self._margin())
        if not config.normalise:
            return rel, None
        chart, margin = self._chart_of_scales()
        measured = rel if chart == config.chart else self._restricted(g, chart, margin)
        scales = block_scales(self.group, measured)
        return Relations(divide(self.group, rel.coords, scales), rel.valid), scales

    def _restricted(self, g: Tensor, chart: str, margin: float) -> Relations:
        exclude_self = self.config.exclude_self
        rel = relate(self.group, g, g, chart, self.neighbours, exclude_self, margin)
        mask, tokens = self.allowed(g)
        valid = rel.valid if mask is None else rel.valid & mask.squeeze(-3)
        return Relations(rel.coords, valid if tokens is None else valid & tokens[..., None])

    def _deferred(self, g: Tensor) -> DeferredRelations:
        """The set itself, whose relations every layer computes by blocks."""
        keys, tokens = g, self.tokens
        if self.gather is not None:
            keys = self.gather.gather(g, -3)
            mask = None if tokens is None else self.gather.gather(tokens, -1)[..., None, None, :]
        else:
            mask, tokens = self.allowed(g)
        return DeferredRelations(g, keys, self.config.exclude_self, self._margin(), mask, tokens)

    def _deferred_scales(self, rel: DeferredRelations) -> Tensor:
        """`block_scales` of relations that are not materialised, in memory linear in the set."""
        chart, margin = self._chart_of_scales()
        keys = rel.k_poses
        request = Request(
            self.group,
            rel.q_poses,
            keys,
            keys.new_zeros(1, keys.shape[-3], 0),  # no values
            keys.new_zeros(1, 0),  # no weights
            rel.mask,
            exclude_self=rel.exclude_self,
            chart=chart,
            neighbours=self.neighbours,
            margin=margin,
        )
        squares, count = sums_by_rows(_row_sums, request)
        if rel.queries is not None:
            squares, count = (torch.where(rel.queries[..., None], x, 0) for x in (squares, count))
        squares, count = squares.sum(-2), count.sum(-2)
        if self.gather is not None:  # sums over the queries of all processes
            squares, count = (self.gather.total(x) for x in (squares, count))
        return _scales(self.group, squares, count).to(keys.dtype)

    def allowed(self, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """A mask of pairs that broadcasts to `[..., 1, N, N]`, and of real queries `[..., N]`.

        Padding neither attends nor is attended to. One mask of both would be the largest tensor of
        the model.
        """
        batch, n = g.shape[:-3], g.shape[-3]
        pairs, neighbours = self.pairs, self.neighbours
        if neighbours is not None:
            require_neighbours(neighbours, n, n)
        if pairs is not None:
            shape = [*batch, n, n if neighbours is None else neighbours.shape[-1]]
            if list(pairs.shape[-2:]) != shape[-2:]:
                raise ValueError(
                    f"a mask of pairs must have shape {shape}, got {list(pairs.shape)}."
                )
            pairs = pairs.unsqueeze(-3)
        if self.tokens is None:
            return pairs, None
        return both(pair_mask(self.tokens, batch, n, neighbours), pairs), self.tokens

    def _margin(self) -> float:
        own, config = self.group.chart_margin, self.config
        return own(config.chart) if config.chart_margin is None else config.chart_margin

    def _chart_of_scales(self) -> tuple[str, float]:
        """The chart in which the scales of a set are measured, and its margin.

        The logarithm grows without bound towards the cut of Aff(n), and pairs beyond it are
        invalid. A mean of squares must not depend on that, so the polar chart is used. On other
        groups the charts are the same.
        """
        group, chart = self.group, self.config.chart
        if group.is_global(chart) or not group.is_global(group.charts[-1]):
            return chart, self._margin()
        return group.charts[-1], 0.0


def block_scales(group: Group, rel: Relations) -> Tensor:
    """Root mean square of each block over the valid pairs of a set, `[..., 1, dim]`.

    An invariant of the set, one number a block, so that nothing depends on the unit of
    translations. Where all translations are equal, their scale is 1. Scales of other blocks are at
    least 0.01, so that rounding is not amplified in sets that hardly turn. Parity does not count.
    """
    coords = torch.where(rel.valid[..., None], rel.coords[..., : group.dim], 0)
    squares = widen(coords).square().sum((-3, -2))  # of distances, beyond the range of float32
    return _scales(group, squares, rel.valid.sum((-2, -1))[..., None]).to(coords.dtype)


def _row_sums(request: Request) -> tuple[Tensor, Tensor]:
    """Sums of squares over the keys of every query, `[..., Nq, dim]`, and their number."""
    with island(request.q_poses):
        coords, valid = request.relations()
        if request.mask is not None:
            valid = valid & request.mask.squeeze(-3)
        coords = torch.where(valid[..., None], coords[..., : request.group.dim], 0)
        squares = widen(coords).square().sum(-2)
        return squares, valid.sum(-1, dtype=squares.dtype)[..., None]


def _scales(group: Group, squares: Tensor, count: Tensor) -> Tensor:
    """Scales from sums of squares `[..., dim]` over `count [..., 1]` pairs."""
    scales, count = [], count.clamp(min=1)
    parts = squares.split([block.dim for block in group.blocks], dim=-1)
    for block, part in zip(group.blocks, parts, strict=True):
        mean = part.sum(-1, keepdim=True) / (count * block.dim)
        if block.kind == "translation":
            mean = torch.where(mean > 0, mean, 1)
        else:
            mean = mean.clamp(min=SMALLEST_SCALE**2)
        scales.append(mean.sqrt().expand(*mean.shape[:-1], block.dim))
    return torch.cat(scales, dim=-1).unsqueeze(-2)
