"""Pose error, flanking accuracy and equivariance error, against what they are defined as."""

from __future__ import annotations

from math import pi
from typing import Any

import pytest
import torch

import lieattn as la
from lieattn.lab.paper.metrics import evaluate, flanking, pose_errors
from lieattn.lab.paper.protocols import PROTOCOLS, build_model
from lieattn.lab.paper.sequences import SequenceSet, make_sequences
from lieattn.models.completion import Completion


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Oracle:
    """Knows the sequences, in any frame: fits the step of each set and fills its gap."""

    def __init__(self, group: la.groups.Group, sets: SequenceSet) -> None:
        self.group, self.sets = group, sets

    def complete(self, poses: torch.Tensor, flanks: str) -> Completion:
        rows, index = torch.arange(len(poses)), self.sets.beside.int().argmax(-1)
        base = self.sets.poses[rows, index]
        step = self.group.relative(base, self.sets.missing)
        probabilities = self.sets.beside / 2 + torch.nn.functional.one_hot(index, 7) * 1e-3
        pose = self.group.compose(poses[rows, index], step)
        return Completion(pose, index, probabilities.sum(-1), probabilities)


def test_pose_error_is_in_physical_coordinates() -> None:
    turned = la.SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.3], [0.0, 2.0, 0.0]]))
    errors, fallbacks = pose_errors(la.SE2, la.SE2.identity(2), turned)
    assert errors.tolist() == pytest.approx([0.09, 4.0], rel=1e-6)
    assert fallbacks == 0


def test_pose_error_off_the_chart_is_frobenius_and_counted() -> None:
    mirrored = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    errors, fallbacks = pose_errors(la.Aff2, la.Aff2.identity(2), torch.stack([mirrored] * 2))
    assert errors.tolist() == [4.0, 4.0]
    assert fallbacks == 2


def test_flanking_counts_either_neighbour() -> None:
    beside = torch.tensor([[True, True, False]] * 3)
    probabilities = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.1, 0.2, 0.7]])
    assert flanking(probabilities, beside) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"])
def test_an_oracle_is_right_and_equivariant(name: str) -> None:
    group = la.get_group(name)
    sets = make_sequences(group, 40, seeded())
    oracle: Any = Oracle(group, sets)
    oracle.group = group
    found = evaluate(oracle, sets, seeded(1), "one")
    assert found["pose_error"] < 1e-10
    assert found["flanking"] == 1
    assert found["equivariance"] < 1e-10
    assert found["flips"] == 0
    assert found["transforms"] == 400
    assert found["fallbacks"] == 0


def test_a_model_that_ignores_its_input_has_the_error_of_the_transforms() -> None:
    class Fixed(Oracle):
        def complete(self, poses: torch.Tensor, flanks: str) -> Completion:
            done = super().complete(poses, flanks)
            return done._replace(pose=self.group.identity(len(poses)).to(poses))

    sets = make_sequences(la.SO2, 300, seeded())
    fixed: Any = Fixed(la.SO2, sets)
    found = evaluate(fixed, sets, seeded(1), "one")
    assert found["equivariance"] == pytest.approx(pi**2 / 3, rel=0.1)  # of a uniform angle


def test_flips_are_counted_and_left_out() -> None:
    class Torn(Oracle):
        """Answers from another token, and worse, whenever the set has been moved."""

        def complete(self, poses: torch.Tensor, flanks: str) -> Completion:
            done = super().complete(poses, flanks)
            if torch.equal(poses.float(), self.sets.poses):
                return done
            swapped = done.probabilities.clone()
            swapped[0] = swapped[0].flip(-1)
            pose = done.pose.clone()
            aside = la.SE2.from_xy_theta(torch.tensor([1.0, 0, 0])).to(pose)
            pose[0] = self.group.compose(pose[0], aside)
            return done._replace(probabilities=swapped, pose=pose)

    sets = make_sequences(la.SE2, 20, seeded(2))
    torn: Any = Torn(la.SE2, sets)
    found = evaluate(torn, sets, seeded(1), "one")
    assert found["flips"] == 10
    assert found["equivariance"] == pytest.approx(1 / 20, rel=1e-3)
    assert found["equivariance_without_flips"] < 1e-10
    assert found["float32"]["flips"] == 10


@pytest.mark.parametrize("model", ["G", "C", "A"])
def test_models_of_the_paper_are_told_apart_before_any_training(model: str) -> None:
    torch.manual_seed(0)
    sets = make_sequences(la.SE2, 30, seeded())
    found = evaluate(build_model(la.SE2, model, PROTOCOLS["paper"]), sets, seeded(1), "one")
    if model == "A":
        assert found["equivariance"] > 1e-2
    else:
        assert found["equivariance_without_flips"] < 1e-11
        assert found["float32"]["equivariance_without_flips"] < 1e-11
