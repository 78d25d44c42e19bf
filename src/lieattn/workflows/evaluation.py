"""Errors on hidden tokens of the test part: a model's, and those of simple rivals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._core.errors import RunError
from ..geometry.interpolation import interpolate, neighbours_in_order, take
from ..groups import Group
from ..models.infill.model import LEVELS, InfillModel
from .errors import block_errors, in_units, unit_of
from .tensors import Stack

CHUNK = 64
# From windows, without the hidden poses, and what is hidden to poses, and bounds
# `[B, N, K, levels]`.
Answer = Callable[[Stack, Tensor], tuple[Tensor, Tensor]]


def nearest(group: Group, poses: Tensor, visible: Tensor) -> Tensor:
    """Every hidden pose as a copy of the visible one that is nearest in the order.

    >>> from lieattn import SO2
    >>> poses = SO2.from_angle(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    >>> visible = torch.tensor([True, False, False, True])
    >>> torch.equal(nearest(SO2, poses, visible), poses[[0, 0, 3, 3]])
    True
    """
    near = neighbours_in_order(visible)
    index = torch.where(near.share <= 0.5, near.before, near.after)
    return take(torch.where(visible[..., None, None], poses, group.identity().to(poses)), index)


def nearest_alike(group: Group, windows: Stack, visible: Tensor) -> Tensor:
    """A copy of the nearest visible pose of the same kind; without one, `interpolate`."""
    features = windows.features
    assert features is not None
    index = torch.arange(visible.shape[-1])
    steps = (index[:, None] - index).abs().float()
    same = (features @ features.mT > 0) & visible[..., None, :]
    least = torch.where(same, steps, torch.inf).min(-1)
    copies = take(windows.poses, least.indices)
    between = interpolate(group, windows.poses, visible)
    return torch.where(least.values.isfinite()[..., None, None], copies, between)


def rivals(group: Group, kinds: bool = False) -> dict[str, Answer]:
    """Answers that need no training, and know no bounds; one of them knows kinds of tokens."""
    known = (name for name in GUESSES if kinds or name != "alike")
    return {name: partial(_rival, group, GUESSES[name]) for name in known}


def _rival(
    group: Group,
    guess: Callable[[Group, Stack, Tensor], Tensor],
    windows: Stack,
    hidden: Tensor,
) -> tuple[Tensor, Tensor]:
    bounds = torch.full((*hidden.shape, len(group.blocks), len(LEVELS)), torch.inf)
    return guess(group, windows, windows.mask & ~hidden), bounds


GUESSES: dict[str, Callable[[Group, Stack, Tensor], Tensor]] = {
    "nearest": lambda group, x, visible: nearest(group, x.poses, visible),
    "geodesic": lambda group, x, visible: interpolate(group, x.poses, visible),
    "alike": nearest_alike,
}
RIVALS = {
    "nearest": "copy of the nearest visible pose",
    "geodesic": "between the visible poses on both sides",
    "alike": "copy of the nearest visible pose of the same kind",
}


Found = tuple[Tensor, Tensor, Tensor]  # errors [n, K], mirrored [n], bounds [n, K, levels]


@torch.no_grad()
def errors_of(group: Group, answer: Answer, exam: list[tuple[Stack, Tensor]]) -> Found:
    """Of hidden tokens: errors by block in physical coordinates, which mirrored, and bounds."""
    errors, mirrored, bounds = [], [], []
    for windows, hidden in exam:
        for rows in torch.arange(len(hidden)).split(CHUNK):
            own, chosen = windows.rows(rows).trimmed(hidden[rows])
            blank = torch.where(chosen[..., None, None], torch.eye(group.matrix_size), own.poses)
            # The truth is not even in reach.
            poses, within = answer(own._replace(poses=blank), chosen)
            found, flipped = block_errors(group, poses[chosen], own.poses[chosen])
            errors.append(found)
            mirrored.append(flipped)
            bounds.append(within[chosen])
    return torch.cat(errors), torch.cat(mirrored), torch.cat(bounds)


def answer_of(name: str, model: InfillModel) -> Answer:
    """A model as one that answers.

    Raises:
        RunError: an answer is not finite.
    """

    def answer(windows: Stack, hidden: Tensor) -> tuple[Tensor, Tensor]:
        try:
            out = model(windows.poses, hidden, windows.mask, windows.features)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            out = None
        if out is None or not out.poses[hidden].isfinite().all():
            raise RunError(
                f"the model {name} gives no finite answer: its weights are too large. Train it "
                "again."
            )
        return out.poses, model.bounds(out.doubt)

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
    """Share of answers within their bounds, by level, a number a block; none without bounds."""
    held = (errors[..., None] <= bounds).double().mean(0)
    there = bounds.isfinite().all(0).all(0)
    return {str(level): held[:, i].tolist() if there[i] else [] for i, level in enumerate(LEVELS)}


def examine(
    models: dict[str, InfillModel], exam: list[tuple[Stack, Tensor]], scale: float
) -> dict[str, Any]:
    """Everything that the table of `lieattn evaluate` shows."""
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
