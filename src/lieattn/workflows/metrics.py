"""Metrics on hidden tokens of the test part: of models and of classical predictors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._core.errors import RunError
from ..geometry.predictors import PREDICTORS, Predictor
from ..groups import Group
from ..models.infill.model import LEVELS, InfillModel
from .errors import block_errors, in_units, unit_of
from .tensors import Exam, Stack, pieces

# From windows, whose hidden poses are blank, and hidden `[B, N]` to poses and bounds
# `[B, N, K, levels]`.
Answer = Callable[[Stack, Tensor], tuple[Tensor, Tensor]]


def rivals(group: Group, kinds: bool = False) -> dict[str, Answer]:
    """Classical predictors as answers without bounds; with `kinds`, those that need kinds too."""
    return {
        name: partial(_predict, group, predictor)
        for name, predictor in PREDICTORS.items()
        if kinds or not predictor.by_kind
    }


def _predict(
    group: Group, predictor: Predictor, windows: Stack, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    bounds = torch.full((*hidden.shape, len(group.blocks), len(LEVELS)), torch.inf)
    visible = windows.mask & ~hidden
    return predictor.predict(group, windows.poses, visible, windows.features), bounds


Found = tuple[Tensor, Tensor, Tensor]  # errors [n, K], mirrored [n], bounds [n, K, levels]


@torch.no_grad()
def errors_of(group: Group, answer: Answer, exam: Exam) -> Found:
    """Errors of hidden tokens by block, in physical coordinates; which are mirrored; bounds."""
    errors, mirrored, bounds = [], [], []
    for own, chosen in pieces(exam):
        # Targets are blanked so that they cannot leak.
        blank = torch.where(chosen[..., None, None], torch.eye(group.matrix_size), own.poses)
        poses, within = answer(own._replace(poses=blank), chosen)
        found, flipped = block_errors(group, poses[chosen], own.poses[chosen])
        errors.append(found)
        mirrored.append(flipped)
        bounds.append(within[chosen])
    return torch.cat(errors), torch.cat(mirrored), torch.cat(bounds)


def answer_of(name: str, model: InfillModel) -> Answer:
    """The answers of a model.

    Raises:
        RunError: an answer is not finite.
    """

    def answer(windows: Stack, hidden: Tensor) -> tuple[Tensor, Tensor]:
        try:
            out = model(windows.poses, missing=hidden, mask=windows.mask, features=windows.features)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            out = None
        if out is None or not out.poses[hidden].isfinite().all():
            raise RunError(
                f"the model {name} gives no finite answer: its weights are too large. Train it "
                "again."
            )
        return out.poses, model.bounds(out.log_error)

    return answer


def summary(group: Group, errors: Tensor, mirrored: Tensor, scale: float) -> dict[str, Any]:
    """Mean, median and 90% quantile of every block, in the units of the file and degrees."""
    shown = in_units(group, errors, scale)
    blocks = {}
    for k, block in enumerate(group.blocks):
        x = shown[:, k]
        blocks[block.name] = {
            "mean": x.mean().item(),
            "median": x.median().item(),
            "90%": x.quantile(0.9).item() if len(x) < 10_000_000 else None,
            "unit": unit_of(block),
        }
    physical = errors.square().sum(-1)
    return {
        "blocks": blocks,
        "squared": physical.mean().item(),
        "mirrored": mirrored.double().mean().item(),
        "tokens": len(errors),
    }


def coverage(errors: Tensor, bounds: Tensor) -> dict[str, list[float]]:
    """Share of answers within their bounds, by level and block; empty where there are no bounds."""
    held = (errors[..., None] <= bounds).double().mean(0)
    there = bounds.isfinite().all(0).all(0)
    return {str(level): held[:, i].tolist() if there[i] else [] for i, level in enumerate(LEVELS)}


def examine(models: dict[str, InfillModel], exam: Exam, scale: float) -> dict[str, Any]:
    """The numbers of the table of `lieattn evaluate`."""
    group = next(iter(models.values())).group
    kinds = exam[0][0].features is not None
    answers = {**rivals(group, kinds), **{name: answer_of(name, x) for name, x in models.items()}}
    table, covered = {}, {}
    for name, answer in answers.items():
        errors, mirrored, bounds = errors_of(group, answer, exam)
        table[name] = summary(group, errors, mirrored, scale)
        if name in models:
            covered[name] = coverage(errors, bounds)
    return {
        "group": group.name,
        "windows": len(exam[0][1]),
        "rows": table,
        "coverage": covered,
    }
