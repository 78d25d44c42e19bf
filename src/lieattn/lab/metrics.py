"""The paper's metrics: pose error, flanking accuracy, equivariance error."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor

from ..completion import CompletionModel
from ..groups import Group
from .sequences import SequenceSet, random_frames

TRANSFORMS = 10
CHUNK = 500  # sets at a time: the learned kernel keeps 128 numbers a pair


def pose_errors(group: Group, predicted: Tensor, truth: Tensor) -> tuple[Tensor, int]:
    r"""$\|\log(\hat g^{-1} g^*)\|^2$ in physical coordinates, `[n]`, and how many have none.

    Those get the squared Frobenius distance $\|\hat g^{-1} g^* - I\|^2$ instead. In float64, so
    that the error is the model's and not the comparison's.
    """
    predicted, truth = predicted.double(), truth.double()
    w, valid = group.relation(predicted, truth)
    error = group.to_physical(w).square().sum(-1)
    if valid.all():
        return error, 0
    eye = group.identity(dtype=torch.float64)
    frobenius = (group.relative(predicted, truth) - eye).square().sum((-2, -1))
    return torch.where(valid, error, frobenius), int((~valid).sum())


def flanking(probabilities: Tensor, beside: Tensor) -> float:
    """Share of sets whose likeliest token is beside the gap."""
    likeliest = probabilities.argmax(-1, keepdim=True)
    return beside.gather(-1, likeliest).double().mean().item()


def evaluate(
    model: CompletionModel, sets: SequenceSet, generator: Generator, flanks: str
) -> dict[str, Any]:
    """All metrics of a model on a test set.

    Equivariance: every set is moved by ten random elements. Two flanks that tie are told apart by
    rounding, so the chosen token may change when a set moves, and the answer then jumps by about
    the pose error. Such flips are counted, and the mean is given with and without them.
    """
    group = model.group
    pose, choice, probabilities = _complete(model, sets.poses, flanks)
    errors, fallbacks = pose_errors(group, pose, sets.missing)
    moved_errors, flips, moved_fallbacks = [], [], 0
    for _ in range(TRANSFORMS):
        a = random_frames(group, len(pose), generator)
        # Moved in float64 and rounded once: the error is the model's, not the product's.
        moved_poses = group.compose(a[:, None], sets.poses.double()).to(pose.dtype)
        moved, moved_choice, _ = _complete(model, moved_poses, flanks)
        target = group.compose(a, pose.double())
        each, off = pose_errors(group, moved, target)
        moved_errors.append(each)
        moved_fallbacks += off
        flips.append((moved_choice != choice).any(-1))
    equivariance, flipped = torch.stack(moved_errors), torch.stack(flips)
    return {
        "pose_error": _mean(errors),
        "flanking": flanking(probabilities, sets.beside),
        "equivariance": _mean(equivariance),
        "equivariance_without_flips": _mean(equivariance[~flipped]),
        "flips": int(flipped.sum()),
        "transforms": flipped.numel(),
        "fallbacks": fallbacks,
        "equivariance_fallbacks": moved_fallbacks,
    }


def _mean(x: Tensor) -> float | None:
    """The mean, or None where there is none: of nothing, or of a model that diverged."""
    mean = x.mean().item() if x.numel() else math.nan
    return mean if math.isfinite(mean) else None


def _complete(model: CompletionModel, poses: Tensor, flanks: str) -> tuple[Tensor, Tensor, Tensor]:
    """Poses, the tokens they were taken from in order of their index, and probabilities."""
    done = [model.complete(part, flanks=flanks) for part in poses.split(CHUNK)]
    probabilities = torch.cat([each.probabilities for each in done])
    choice = probabilities.argmax(-1, keepdim=True)
    if flanks == "both":
        choice = probabilities.topk(2, dim=-1).indices.sort(-1).values
    return torch.cat([each.pose for each in done]), choice, probabilities
