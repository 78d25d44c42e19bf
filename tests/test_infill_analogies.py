"""Answers by analogy: steps that repeat are found again, wherever a set is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn.models.infill.analogies import Analogies, pooled, steps_to
from lieattn.models.infill.loss import infill_losses

GROUPS = list(la.available_groups().values())
SMALL = la.LieTransformerConfig.paper(dim=16, heads=2, layers=2, content=True)
KINDS = torch.eye(2)[torch.arange(10) % 2]
HIDDEN = torch.arange(10) == 4


def two_steps(group: la.Group, batch: int = 3) -> Tensor:
    """Sets of ten that go by two steps in turns: what is between two tokens is not their middle."""
    generator = torch.Generator().manual_seed(1)
    first, *steps = group.exp(
        0.4 * torch.randn(3, batch, group.dim, generator=generator, dtype=torch.float64)
    )
    poses = [first]
    for i in range(9):
        poses.append(group.compose(poses[-1], steps[i % 2]))
    return torch.stack(poses, 1)


def model_of(group: la.Group, built: type[la.InfillModel] = la.InfillModel) -> la.InfillModel:
    torch.manual_seed(0)
    config = la.InfillConfig(encoder=SMALL, features=2, copies=True, analogies=True)
    model = built(group, config).double()
    torch.nn.init.normal_(model.transformer.correction[-1].weight, std=0.1)
    return model


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_a_step_that_repeats_is_found_and_moves_with_the_set(group: la.Group) -> None:
    model, poses = model_of(group), two_steps(group)
    hidden, kinds = HIDDEN.expand(3, 10), KINDS.double().expand(3, 10, 2)
    model.measure(poses, missing=hidden, features=kinds)
    gap = torch.where(hidden[..., None, None], torch.nan, poses)
    found = model.fill(gap, missing=hidden, features=kinds).poses
    between = la.interpolate(group, poses, ~hidden)
    assert (between - poses)[hidden].abs().max() > 0.01
    torch.testing.assert_close(found, poses, atol=1e-9, rtol=1e-9)
    a = group.random(dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    moved = model.fill(group.compose(a, poses), missing=hidden, features=kinds).poses
    torch.testing.assert_close(moved, group.compose(a, found), atol=1e-9, rtol=1e-9)
    alone = model.fill(gap[1], missing=HIDDEN, features=KINDS.double()).poses  # without a batch
    torch.testing.assert_close(alone, found[1], atol=1e-9, rtol=1e-9)


def test_padding_and_hidden_tokens_are_no_examples() -> None:
    """Whatever stands there: they are neither where a step begins nor where it ends."""
    model, poses = model_of(la.SE3), two_steps(la.SE3)
    hidden, kinds = HIDDEN.expand(3, 10), KINDS.double().expand(3, 10, 2)
    mask = (torch.arange(10) < 8).expand(3, 10)
    first = model(poses, missing=hidden, mask=mask, features=kinds)
    poses = torch.where((mask & ~hidden)[..., None, None], poses, la.SE3.random(3, 10).double())
    second = model(poses, missing=hidden, mask=mask, features=kinds)
    assert torch.equal(first.votes, second.votes)
    assert torch.equal(first.analogies[hidden], second.analogies[hidden])


def test_vector_tokens_have_their_analogies_where_the_set_is() -> None:
    model, poses = model_of(la.SE3, la.VectorInfillModel), two_steps(la.SE3)
    hidden, kinds = HIDDEN.expand(3, 10), KINDS.double().expand(3, 10, 2)
    model.measure(poses, missing=hidden, features=kinds)
    out = model.eval()(poses, missing=hidden, features=kinds)
    off = (out.analogies[hidden] - poses[hidden][:, None]).abs().amax((-1, -2)).amin(-1)
    assert off.max() < 1e-9
    assert infill_losses(model, out, poses, missing=hidden).error.max() < 1e-9


def test_gradients_are_finite_with_and_without_analogies() -> None:
    for size in (3, 10):
        model = model_of(la.Aff3)
        poses, hidden = two_steps(la.Aff3)[:, :size], (torch.arange(size) == 1).expand(3, size)
        kinds = KINDS.double()[:size].expand(3, size, 2)
        out = model(poses, missing=hidden, features=kinds)
        assert bool(out.votes[hidden][..., 1 + size :].isneginf().all()) is (size == 3)
        la.infill_loss(model, out, poses, missing=hidden).backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        assert bool(model.analogy.weights.grad.any()) is (size > 3)


def test_votes_for_the_same_pose_are_pooled() -> None:
    poses = torch.stack([la.SE2.identity(), la.SE2.random(), la.SE2.identity()])[None]
    logits = torch.tensor([[[0.0, 1.0, 0.0]]])
    expected = torch.tensor([[[2.0, torch.e, 0.0]]])
    torch.testing.assert_close(pooled(poses, logits).exp(), expected)


def test_a_step_has_a_beginning_of_its_own() -> None:
    """No example begins where the step begins: its end would be the hidden token."""
    seen = torch.ones(1, 12, dtype=torch.bool)
    steps = steps_to(torch.tensor([5]), seen)
    assert not (steps.there & (steps.j == steps.k)).any()
    assert ((steps.l - steps.k) == (5 - steps.j))[steps.there].all()
    assert Analogies(4, 1).weights.shape == (1, 4)


def test_analogies_are_asked_for_beside_copies() -> None:
    with pytest.raises(ValueError, match="analogies compete with copies: set copies=True"):
        la.InfillConfig(analogies=True)
