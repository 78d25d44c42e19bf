"""`CompletionModel.complete`: a missing pose, the token it hangs on, and a confidence."""

import pytest
import torch

import lieattn as la
from lieattn import LieTransformerConfig


def model_of(group: la.Group, **options: object) -> la.CompletionModel:
    torch.manual_seed(0)
    return la.CompletionModel(group, LieTransformerConfig(**options))


def test_the_pose_is_the_base_tokens(group: la.Group) -> None:
    model, poses = model_of(group).eval(), group.random(3, 7)
    done, out = model.complete(poses), model(poses)
    assert torch.equal(done.base, out.gap.argmax(-1))
    rows = torch.arange(3)
    assert torch.equal(done.pose, out.poses[rows, done.base])
    group.check(done.pose)


def test_confidence_is_the_mass_of_the_two_likeliest() -> None:
    model, poses = model_of(la.SE2), la.SE2.random(3, 7)
    done = model.complete(poses)
    expected = done.probabilities.sort(-1).values[:, -2:].sum(-1)
    torch.testing.assert_close(done.confidence, expected)
    torch.testing.assert_close(done.probabilities.sum(-1), torch.ones(3))
    # Two tokens that share all of the probability, as the paper's targets do, are certainty.
    model.gap.linear.weight.data *= 1e6
    assert (model.complete(poses).confidence > 0.9).all()


def test_padding_is_never_the_base_and_changes_nothing() -> None:
    model, poses = model_of(la.SE3), la.SE3.random(2, 6)
    alone = model.complete(poses[:, :3])
    mask = torch.arange(6).expand(2, -1) < 3
    padded = model.complete(poses, mask)
    assert torch.equal(alone.base, padded.base)
    torch.testing.assert_close(alone.pose, padded.pose, rtol=1e-5, atol=1e-5)
    assert not padded.probabilities[:, 3:].any()


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_batches_of_any_shape(batch: tuple[int, ...]) -> None:
    done = model_of(la.SE2).complete(la.SE2.random(*batch, 7))
    assert done.pose.shape == (*batch, 3, 3)
    assert done.base.shape == done.confidence.shape == batch


def test_one_token_is_enough() -> None:
    done = model_of(la.SE2).complete(la.SE2.random(1))
    assert done.base.item() == 0
    assert done.confidence.item() == 1
    assert done.pose.isfinite().all()


def test_dropout_is_off_and_the_mode_is_kept() -> None:
    model, poses = model_of(la.SE2, dropout=0.5).train(), la.SE2.random(7)
    assert torch.equal(model.complete(poses).pose, model.complete(poses).pose)
    assert model.training
    assert not model.complete(poses).pose.requires_grad


def test_features_are_passed_on() -> None:
    model, poses = model_of(la.SE2, features=2), la.SE2.random(7)
    a, b = (model.complete(poses, features=torch.full((7, 2), x)) for x in (0.0, 1.0))
    assert not torch.equal(a.probabilities, b.probabilities)


@pytest.mark.parametrize("kind", [la.VectorCompletionModel, la.PairCompletionModel])
def test_baselines_complete_too(kind: type, group: la.Group) -> None:
    torch.manual_seed(0)
    poses = group.random(2, 7)
    mask = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
    done = kind(group).complete(poses, mask)
    group.check(done.pose)
    assert (done.base[1] < 4).all()
    assert done.confidence.isfinite().all()


def test_a_set_of_padding_only_is_finite_in_the_vector_baseline() -> None:
    model = la.VectorCompletionModel(la.SE2)
    mask = torch.tensor([[True] * 4, [False] * 4])
    out = model(la.SE2.random(2, 4), mask=mask)
    assert all(x.isfinite().all() for x in out)


def test_modules_get_back_the_mode_they_had() -> None:
    model = model_of(la.SE2).train()
    model.transformer.eval()
    model.complete(la.SE2.random(7))
    assert model.training
    assert not model.transformer.training


def test_lists_and_biases_are_passed_on() -> None:
    model, poses = model_of(la.SE2), la.SE2.random(1, 7)
    everyone = torch.arange(7).expand(1, 7, 7)
    listed = model.complete(poses, neighbours=everyone)
    torch.testing.assert_close(listed.pose, model.complete(poses).pose, rtol=1e-5, atol=1e-5)
    moved = model.complete(poses, bias=torch.randn(1, 7, 7))
    assert not torch.equal(moved.probabilities, listed.probabilities)


def test_completion_runs_under_vmap_with_a_mask() -> None:
    model, poses = model_of(la.SE2), la.SE2.random(3, 7)
    mask = torch.arange(7).expand(3, -1) < 5
    together = torch.vmap(lambda g, m: model.complete(g, m).pose)(poses, mask)
    torch.testing.assert_close(together, model.complete(poses, mask).pose, rtol=1e-5, atol=1e-5)
