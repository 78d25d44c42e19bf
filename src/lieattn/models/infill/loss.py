"""What an `InfillModel` is trained by: the errors that tables of results show."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from ..._core.tensors import island
from ...geometry.errors import relative_errors, softened
from .model import InfillModel, InfillOutput
from .pointer import options_of, unlikeliness

DOUBTS = 0.1  # weight of their misfit, which changes nothing but doubts
SMALLEST = 1e-3  # of an error over that of interpolation, below which doubts are all the same


class InfillLosses(NamedTuple):
    """Of every token, `[..., N]`, zero where nothing was hidden."""

    error: Tensor  # of the answer; without a gradient
    risk: Tensor  # error of the corrected guess, and how unlikely copies near the truth are
    misfit: Tensor  # of the doubts


def infill_losses(
    model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor
) -> InfillLosses:
    """What `infill_loss` is the mean of.

    Errors are those of the tables: norms of the blocks of `log(answer^-1 truth)` over those of
    interpolation, a mean over blocks; small ones count by their squares. The misfit is between the
    doubts and the logarithms of the errors of blocks.
    """
    group, unit = model.group, model.unit
    rows = hidden.nonzero(as_tuple=True)
    with island(truth):
        goal = truth[rows]
        risk = softened(relative_errors(group, unit, out.moved[rows], goal)).mean(-1)
        if out.votes is not None:
            options = options_of(out.moved, truth, out.analogies, rows)
            risk = risk + unlikeliness(group, unit, options, out.votes[rows], goal)
        with torch.no_grad():
            off = relative_errors(group, unit, out.poses[rows], goal)
            found = off.clamp(min=SMALLEST).log()
        misfit = smooth_l1_loss(out.doubt[rows], found.to(out.doubt), reduction="none").mean(-1)
    nothing = risk.new_zeros(hidden.shape)
    return InfillLosses(
        *(nothing.index_put(rows, x.to(risk)) for x in (softened(off).mean(-1), risk, misfit))
    )


def infill_loss(model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor) -> Tensor:
    """The mean loss of hidden tokens: their risk, and a tenth of the misfit of the doubts.

    Args:
        model: of which `out` is.
        truth: all poses, `[..., N, m, m]`.
        hidden: `[..., N]`, as the model was given; False in padding.
    """
    losses = infill_losses(model, out, truth, hidden)
    return (losses.risk + DOUBTS * losses.misfit).sum() / hidden.sum().clamp(min=1)
