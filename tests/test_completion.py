"""`CompletionModel.complete`: a missing pose, the token it hangs on, and a confidence."""

import pytest
import torch

import lieattn as la
from lieattn import LieTransformerConfig
from lieattn.models.completion import between_flanks, from_likeliest


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
    padded = model.complete(poses, mask=mask)
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
    done = kind(group).complete(poses, mask=mask)
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
    moved = model.complete(poses, bias=torch.randn(7, 7))
    assert not torch.equal(moved.probabilities, listed.probabilities)


def test_completion_runs_under_vmap_with_a_mask() -> None:
    model, poses = model_of(la.SE2), la.SE2.random(3, 7)
    mask = torch.arange(7).expand(3, -1) < 5
    together = torch.vmap(lambda g, m: model.complete(g, mask=m).pose)(poses, mask)
    torch.testing.assert_close(
        together, model.complete(poses, mask=mask).pose, rtol=1e-5, atol=1e-5
    )


def test_both_flanks_meet_in_proportion_to_their_probabilities() -> None:
    group = la.SE2
    answers = group.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [9.0, 9.0, 1.0]]))
    probabilities = torch.tensor([0.6, 0.2, 0.1])
    pose = between_flanks(group, answers, probabilities)
    assert torch.allclose(pose, group.from_xy_theta(torch.tensor([0.25, 0.0, 0.0])))


@pytest.mark.parametrize("name", ["SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"])
def test_both_flanks_do_not_jump_where_they_tie(name: str) -> None:
    group = la.get_group(name)
    near = group.exp(0.1 * torch.randn(7, group.dim, generator=torch.Generator().manual_seed(0)))
    answers = group.compose(group.random(1, generator=torch.Generator().manual_seed(1)), near)
    tie = torch.tensor([0.1, 0.3, 0.1, 0.1, 0.3, 0.05, 0.05])
    tip = torch.zeros(7).index_fill(0, torch.tensor(4), 1e-6)
    first, second = (between_flanks(group, answers, tie + x) for x in (tip, -tip))
    assert torch.allclose(first, second, atol=1e-5)
    one, other = (from_likeliest(group, answers, tie + x) for x in (tip, -tip))
    assert not torch.allclose(one, other, atol=1e-2)


def test_flanks_of_a_model_are_read_from_its_own_answers() -> None:
    torch.manual_seed(0)
    model, poses = la.CompletionModel(la.SE3), la.SE3.random(5, 7)
    out = model(poses)
    done = model.complete(poses, flanks="both")
    expected = between_flanks(la.SE3, out.poses, out.gap.softmax(-1))
    assert torch.allclose(done.pose, expected, atol=1e-6)
    assert torch.equal(done.base, out.gap.argmax(-1))
    a = la.SE3.random()
    moved = model.complete(la.SE3.compose(a, poses), flanks="both").pose
    assert torch.allclose(moved, la.SE3.compose(a, done.pose), atol=1e-5)


def test_one_token_answers_alone_for_both_flanks() -> None:
    model, poses = la.CompletionModel(la.SE2), la.SE2.random(3, 1)
    both, one = (model.complete(poses, flanks=flanks).pose for flanks in ("both", "one"))
    assert torch.equal(both, one)


def test_unknown_flanks_are_an_error() -> None:
    with pytest.raises(ValueError, match="unknown flanks 'left'; known are one, both"):
        la.CompletionModel(la.SE2).complete(la.SE2.random(7), flanks="left")


def test_padding_is_no_flank_whatever_it_holds() -> None:
    model, poses = model_of(la.SE2), la.SE2.random(2, 4)
    alone = model.complete(poses[:, :1], flanks="both").pose
    poses[:, 1:] = torch.nan
    mask = torch.arange(4).expand(2, -1) < 1
    assert torch.allclose(model.complete(poses, mask=mask, flanks="both").pose, alone, atol=1e-6)
