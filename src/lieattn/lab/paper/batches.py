"""The data of training, computed once: invariants, corrections, tokens beside the gap."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from ...models.baselines.vector import VectorCompletionModel, absolute_features
from ...models.completion import CompletionModel
from ...nn.pairing import Pairing
from .sequences import SequenceSet


class Batches:
    """Inputs and targets of S data sets as rows, and batches of them with the tokens last.

    Args:
        model: a model of the architecture to be trained.
        sets: one data set a seed, of the same number of sequences.
    """

    def __init__(self, model: CompletionModel, sets: list[SequenceSet]) -> None:
        fields = [_fields(model, data) for data in sets]
        self.shapes = {name: x.shape[1:] for name, x in fields[0].items()}
        self.rows = torch.stack(
            [torch.cat([x.flatten(1) for x in each.values()], dim=1) for each in fields]
        )
        self.seeds, self.count = self.rows.shape[:2]

    def take(self, index: Tensor) -> dict[str, Tensor]:
        """Fields `[S, ..., B]` of the sequences `index [S, B]`."""
        offsets = torch.arange(self.seeds)[:, None] * self.count
        rows = self.rows.flatten(0, 1).index_select(0, (index + offsets).flatten())
        rows = rows.unflatten(0, index.shape).transpose(1, 2).contiguous()
        parts = rows.split([prod(shape) for shape in self.shapes.values()], dim=1)
        return {
            name: part.unflatten(1, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


def _fields(model: CompletionModel, data: SequenceSet) -> dict[str, Tensor]:
    """Of every sequence: input, true corrections, scale of delta, probability of each token."""
    group = model.group
    needed = group.log_relative(data.poses, data.missing[:, None])
    scale = torch.ones(len(data.poses), 1, group.dim)
    if isinstance(model, VectorCompletionModel):
        x = absolute_features(group, data.poses).mT  # [n, F, N]
    else:
        rel, divisor = Pairing(group, model.config).kept(data.poses)
        scale = scale if divisor is None else divisor
        x = rel.coords.movedim(-1, 1)  # [n, C, N, N]
    return {
        "x": x,
        "needed": group.to_physical(needed).mT,  # [n, dim, N]
        "scale": group.to_physical(scale).mT,  # [n, dim, 1]
        "beside": data.beside / 2,
    }
