"""The scales of a set: the root mean square of every block of its relations."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import widen
from .._core.tensors import island
from ..geometry.pairs import DeferredRelations, Relations
from ..groups import Group
from ..ops import Request, sums_by_rows

SMALLEST_SCALE = 0.01


def block_scales(group: Group, rel: Relations) -> Tensor:
    """Root mean square of each block over the valid pairs of a set, `[..., 1, dim]`.

    An invariant of the set, one number a block: translations have a unit, the others have not, and
    a scene in millimetres must not turn more than one in metres. Where all translations are the
    same, their scale is 1; of blocks without a unit it is at least 0.01, or rounding would be
    blown up in sets that hardly turn. Parity does not count.
    """
    coords = torch.where(rel.valid[..., None], rel.coords[..., : group.dim], 0)
    squares = widen(coords).square().sum((-3, -2))  # of distances, beyond the range of float32
    return _scales(group, squares, rel.valid.sum((-2, -1))[..., None]).to(coords.dtype)


def deferred_scales(
    group: Group, rel: DeferredRelations, chart: str, neighbours: Tensor | None
) -> Tensor:
    """`block_scales` of relations that nobody keeps, in memory linear in the size of the set."""
    keys = rel.k_poses
    nothing, weights = keys.new_zeros(1, keys.shape[-3], 0), keys.new_zeros(1, 0)
    request = Request(
        group,
        rel.q_poses,
        keys,
        nothing,
        weights,
        rel.mask,
        exclude_self=rel.exclude_self,
        chart=chart,
        neighbours=neighbours,
        margin=rel.margin,
    )
    squares, count = sums_by_rows(_row_sums, request)
    if rel.queries is not None:
        squares, count = (torch.where(rel.queries[..., None], x, 0) for x in (squares, count))
    return _scales(group, squares.sum(-2), count.sum(-2)).to(keys.dtype)


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
