"""The paper's metrics: pose error, flanking accuracy, equivariance error."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor

from ...groups import Group
from ...losses import squared_chord
from ...models.completion import CompletionModel
from .sequences import SequenceSet, random_frames

TRANSFORMS = 10
CHUNK = 500  # sets at a time: the learned kernel keeps 128 numbers a pair


def pose_errors(group: Group, predicted: Tensor, truth: Tensor) -> tuple[Tensor, int]:
    r"""$\|\log(\hat g^{-1} g^*)\|^2$ in physical coordinates, `[n]`, and how many lack a logarithm.

    Those have the squared Frobenius distance $\|\hat g^{-1} g^* - I\|^2$ instead. It is computed in
    float64, so that the comparison adds no error.
    """
    predicted, truth = predicted.double(), truth.double()
    w, valid = group.relation(predicted, truth)
    error = group.to_physical(w).square().sum(-1)
    if valid.all():
        return error, 0
    error = torch.where(valid, error, squared_chord(group, predicted, truth))
    return error, int((~valid).sum())


def flanking(probabilities: Tensor, beside: Tensor) -> float:
    """Share of sets whose most probable token is beside the gap."""
    likeliest = probabilities.argmax(-1, keepdim=True)
    return beside.gather(-1, likeliest).double().mean().item()


def evaluate(
    model: CompletionModel, sets: SequenceSet, generator: Generator, flanks: str
) -> dict[str, Any]:
    """All metrics of a model on a test set of float32 poses.

    Geometry runs in float64, the network in float32. Sharp attention multiplies rounding, so the
    equivariance error is measured a second time with float32 throughout.
    """
    transforms = [random_frames(model.group, len(sets.poses), generator) for _ in range(TRANSFORMS)]
    pose, _, probabilities = _complete(model, sets.poses.double(), flanks)
    errors, fallbacks = pose_errors(model.group, pose, sets.missing)
    narrow = equivariance(model, sets, transforms, flanks, torch.float32)
    return {
        "pose_error": _mean(errors),
        "flanking": flanking(probabilities, sets.beside),
        "fallbacks": fallbacks,
        **equivariance(model, sets, transforms, flanks, torch.float64),
        "float32": {key: narrow[key] for key in ("equivariance_without_flips", "flips")},
    }


def equivariance(
    model: CompletionModel,
    sets: SequenceSet,
    transforms: list[Tensor],
    flanks: str,
    dtype: torch.dtype,
) -> dict[str, Any]:
    """Equivariance error over random transforms, with geometry in a dtype.

    If two tokens have equal probability, rounding decides which is chosen. The choice may then
    change when a set moves, and the answer jumps by about the pose error. Such flips are counted,
    and the mean is given with and without them.
    """
    group = model.group
    pose, choice, _ = _complete(model, sets.poses.to(dtype), flanks)
    errors, flips, fallbacks = [], [], 0
    for a in transforms:
        # Moved in float64 and rounded once: the error is the model's, not the product's.
        poses = group.compose(a[:, None], sets.poses.double()).to(sets.poses.dtype)
        moved, moved_choice, _ = _complete(model, poses.to(dtype), flanks)
        each, off_chart = pose_errors(group, moved, group.compose(a, pose.double()))
        errors.append(each)
        flips.append((moved_choice != choice).any(-1))
        fallbacks += off_chart
    error, flipped = torch.stack(errors), torch.stack(flips)
    return {
        "equivariance": _mean(error),
        "equivariance_without_flips": _mean(error[~flipped]),
        "flips": int(flipped.sum()),
        "transforms": flipped.numel(),
        "equivariance_fallbacks": fallbacks,
    }


def _mean(x: Tensor) -> float | None:
    """The mean, or None if it is not finite: of nothing, or of a model that diverged."""
    mean = x.mean().item() if x.numel() else math.nan
    return mean if math.isfinite(mean) else None


def _complete(model: CompletionModel, poses: Tensor, flanks: str) -> tuple[Tensor, Tensor, Tensor]:
    """Poses, the tokens that they were computed from, by index, and probabilities."""
    done = [model.complete(part, flanks=flanks) for part in poses.split(CHUNK)]
    probabilities = torch.cat([each.probabilities for each in done])
    choice = probabilities.argmax(-1, keepdim=True)
    if flanks == "both":
        choice = probabilities.topk(2, dim=-1).indices.sort(-1).values
    return torch.cat([each.pose for each in done]), choice, probabilities
