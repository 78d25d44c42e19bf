"""The loss of an `InfillModel`: the errors that tables of results show."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from ..._core.calls import by_name
from ..._core.tensors import island
from ...geometry.errors import relative_errors, softened
from .model import InfillModel, InfillOutput
from .pointer import options_of, unlikeliness

LOG_ERRORS = 0.1  # weight of the misfit, whose gradient reaches those predictions alone
SMALLEST = 1e-3  # of an error over that of interpolation: smaller ones count as this


class InfillLosses(NamedTuple):
    """Losses of every token, `[..., N]`; zero where nothing is missing."""

    error: Tensor  # of the answer; has no gradient
    risk: Tensor  # error of the corrected guess, and how unlikely copies near the truth are
    misfit: Tensor  # of the predicted log errors


@by_name(hidden="missing=")
def infill_losses(
    model: InfillModel, out: InfillOutput, truth: Tensor, *, missing: Tensor
) -> InfillLosses:
    """The losses of tokens that `infill_loss` averages.

    An error is the norm of a block of `log(answer^-1 truth)` over that of interpolation, averaged
    over blocks; small errors count quadratically. The misfit compares predicted log errors of
    blocks with the true ones.
    """
    group, unit = model.group, model.unit
    rows = missing.nonzero(as_tuple=True)
    with island(truth):
        goal = truth[rows]
        risk = softened(relative_errors(group, unit, out.moved[rows], goal)).mean(-1)
        if out.votes is not None:
            options = options_of(out.moved, truth, out.analogies, rows)
            risk = risk + unlikeliness(group, unit, options, out.votes[rows], goal)
        with torch.no_grad():
            off = relative_errors(group, unit, out.poses[rows], goal)
            found = off.clamp(min=SMALLEST).log()
        misfit = smooth_l1_loss(
            out.log_error[rows], found.to(out.log_error), reduction="none"
        ).mean(-1)
    nothing = risk.new_zeros(missing.shape)
    return InfillLosses(
        *(nothing.index_put(rows, x.to(risk)) for x in (softened(off).mean(-1), risk, misfit))
    )


@by_name(hidden="missing=")
def infill_loss(model: InfillModel, out: InfillOutput, truth: Tensor, *, missing: Tensor) -> Tensor:
    """The mean over missing tokens of the risk and a tenth of the misfit of predicted log errors.

    Args:
        model: the model that computed `out`.
        truth: all poses, `[..., N, m, m]`.
        missing: `[..., N]`, as the model was given; False in padding.
    """
    losses = infill_losses(model, out, truth, missing=missing)
    return (losses.risk + LOG_ERRORS * losses.misfit).sum() / missing.sum().clamp(min=1)
