"""Losses: zero where they should be, invariant, smooth at zero, and deaf to what is masked."""

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import losses


@pytest.fixture
def pair(group: la.Group) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    poses = group.random(2, 5, generator=generator, dtype=torch.float64)
    step = 0.3 * torch.randn(2, 5, group.dim, generator=generator, dtype=torch.float64)
    return poses, group.compose(poses, group.exp(step))


def test_losses_vanish_at_the_target(group: la.Group, pair: tuple[Tensor, Tensor]) -> None:
    poses, target = pair
    assert losses.geodesic_loss(group, target, target) < 1e-25
    assert losses.chordal_loss(group, target, target) < 1e-25
    delta = group.log_relative(poses, target)
    assert losses.algebra_loss(group, delta, poses, target) < 1e-25


def test_losses_are_the_printed_distances(group: la.Group, pair: tuple[Tensor, Tensor]) -> None:
    predicted, target = pair
    w = group.log(group.compose(group.inverse(predicted), target))
    expected = group.to_physical(w).square().sum(-1).mean()
    torch.testing.assert_close(losses.geodesic_loss(group, predicted, target), expected)
    expected = w.square().sum(-1).mean()
    got = losses.geodesic_loss(group, predicted, target, physical=False)
    torch.testing.assert_close(got, expected)
    got = losses.algebra_loss(group, torch.zeros_like(w), predicted, target, physical=False)
    torch.testing.assert_close(got, expected)


def test_chordal_loss_of_rigid_motions_is_the_distance_of_matrices() -> None:
    a, b = la.SE3.random(2, 5), la.SE3.random(2, 5)
    expected = (a - b).square().sum((-2, -1)).mean()
    torch.testing.assert_close(losses.chordal_loss(la.SE3, a, b), expected)


def test_moving_both_sides_changes_no_loss(group: la.Group, pair: tuple[Tensor, Tensor]) -> None:
    a = group.random(dtype=torch.float64)
    moved = [group.compose(a, g) for g in pair]
    for loss in (losses.geodesic_loss, losses.chordal_loss):
        torch.testing.assert_close(loss(group, *moved), loss(group, *pair))


def test_gradients_at_the_target_are_zero_not_nan(group: la.Group) -> None:
    target = group.random(2, 5)
    for loss in (losses.geodesic_loss, losses.chordal_loss):
        predicted = target.clone().requires_grad_()
        loss(group, predicted, target).backward()
        assert predicted.grad.abs().max() < 1e-4


def test_masked_elements_do_not_count(group: la.Group, pair: tuple[Tensor, Tensor]) -> None:
    predicted, target = pair
    mask = torch.tensor([[True, True, False, False, False], [True, False, True, False, False]])
    for loss in (losses.geodesic_loss, losses.chordal_loss):
        expected = loss(group, predicted[mask], target[mask])
        torch.testing.assert_close(loss(group, predicted, target, mask), expected)
        assert loss(group, predicted, target, torch.zeros_like(mask)) == 0


def test_block_weights_weigh_blocks(pair: tuple[Tensor, Tensor], group: la.Group) -> None:
    parts = [
        losses.geodesic_loss(group, *pair, weights=row)
        for row in torch.eye(len(group.blocks), dtype=torch.float64)
    ]
    torch.testing.assert_close(sum(parts), losses.geodesic_loss(group, *pair))


def test_off_the_chart_the_chordal_distance_stands_in() -> None:
    eye, mirror = torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    assert losses.geodesic_loss(la.Aff2, eye, mirror) == losses.chordal_loss(la.Aff2, eye, mirror)
    assert losses.algebra_loss(la.Aff2, torch.ones(6), eye, mirror) == 0


def test_gap_loss_is_a_soft_cross_entropy() -> None:
    logits = torch.randn(3, 5)
    target = torch.zeros(3, 5)
    target[:, [1, 3]] = 0.5
    expected = torch.nn.functional.cross_entropy(logits, target)
    torch.testing.assert_close(losses.gap_loss(logits, target), expected)
    best = torch.where(target > 0, 50.0, -50.0)
    torch.testing.assert_close(losses.gap_loss(best, target), torch.tensor(2.0).log())


def test_gap_loss_with_padding() -> None:
    logits, target = torch.randn(3, 5), torch.zeros(3, 5)
    target[:, 0] = 1
    mask = torch.arange(5).expand(3, -1) < torch.tensor([[5], [3], [0]])
    singles = [losses.gap_loss(logits[i, :n], target[i, :n]) for i, n in ((0, 5), (1, 3))]
    torch.testing.assert_close(losses.gap_loss(logits, target, mask), sum(singles) / 2)
    logits.requires_grad_()
    losses.gap_loss(logits, target, mask).backward()
    assert logits.grad.isfinite().all()
    assert not logits.grad[1, 3:].any()


@pytest.mark.parametrize("filler", [0.0, torch.nan])
def test_targets_that_do_not_count_may_hold_anything(group: la.Group, filler: float) -> None:
    mask = torch.tensor([[True, True, False]])
    target = torch.where(mask[..., None, None], group.random(1, 3), filler)
    for loss in (losses.geodesic_loss, losses.chordal_loss):
        predicted = group.random(1, 3).requires_grad_()
        loss(group, predicted, target, mask).backward()
        assert predicted.grad.isfinite().all()
    delta = torch.zeros(1, 3, group.dim, requires_grad=True)
    poses = group.random(1, 3).requires_grad_()
    losses.algebra_loss(group, delta, poses, target, mask).backward()
    assert poses.grad.isfinite().all()


def test_a_loss_over_nothing_is_zero() -> None:
    empty = la.SE2.random(0)
    assert losses.geodesic_loss(la.SE2, empty, empty) == 0


def test_one_target_for_all_is_said_with_a_dimension() -> None:
    poses, target = la.SE2.random(4, 4), la.SE2.random(4)
    shared = losses.chordal_loss(la.SE2, poses, target[:, None])
    each = losses.chordal_loss(la.SE2, poses, target[:, None].expand(4, 4, 3, 3))
    torch.testing.assert_close(shared, each)
    with pytest.raises(ValueError, match="or 1 where they are shared"):
        losses.chordal_loss(la.SE2, poses, target)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: losses.geodesic_loss(la.SE2, g, g, torch.ones(2, 5)), "mask must be boolean"),
        (lambda g: losses.geodesic_loss(la.SE2, g, g, weights=torch.ones(1)), "every block"),
        (lambda g: losses.algebra_loss(la.SE2, torch.zeros(2, 5, 1), g, g), "coordinates must"),
        (lambda g: losses.algebra_loss(la.SE2, torch.zeros(5, 3), g, g), "delta must have shape"),
        (lambda g: losses.gap_loss(torch.zeros(5, 5), torch.zeros(5)), "a probability for every"),
    ],
)
def test_what_does_not_fit_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(la.SE2.random(2, 5))


def test_completion_loss_is_gap_and_correction() -> None:
    torch.manual_seed(0)
    model, poses, missing = la.CompletionModel(la.SE2), la.SE2.random(2, 4), la.SE2.random(2)
    beside = torch.tensor([[True, True, False, False], [False, True, True, False]])
    out = model(poses)
    gap = torch.nn.functional.cross_entropy(out.gap, beside / 2)
    needed = la.SE2.log_relative(poses, missing[:, None])
    error = la.SE2.to_physical(out.delta - needed).square().sum(-1)[beside].mean()
    got = losses.completion_loss(la.SE2, out, missing, beside)
    torch.testing.assert_close(got, gap + error)


def test_completion_loss_measures_from_where_updates_moved_the_poses() -> None:
    torch.manual_seed(0)
    config = la.LieTransformerConfig(pose_updates=True)
    model, poses, missing = (
        la.CompletionModel(la.SE2, config),
        la.SE2.random(2, 4),
        la.SE2.random(2),
    )
    out, beside = model(poses), torch.ones(2, 4, dtype=torch.bool)
    needed = la.SE2.log_relative(out.frames, missing[:, None])
    exact = out._replace(delta=needed)
    gap = losses.gap_loss(out.gap, beside / 4)
    torch.testing.assert_close(losses.completion_loss(la.SE2, exact, missing, beside), gap)


def test_completion_loss_ends_at_the_logarithm_of_two() -> None:
    poses, missing = la.SE2.random(2, 4), la.SE2.random(2)
    beside = torch.tensor([[True, True, False, False]]).expand(2, -1)
    delta = la.SE2.log_relative(poses, missing[:, None])
    out = la.CompletionOutput(torch.where(beside, 50.0, -50.0), delta, poses, delta, poses)
    got = losses.completion_loss(la.SE2, out, missing, beside)
    torch.testing.assert_close(got, torch.tensor(2.0).log())


def test_the_polar_chart_has_a_distance_for_every_pair() -> None:
    eye, mirror = torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    far = losses.geodesic_loss(la.Aff2, eye, mirror, chart="polar")
    assert far == la.Aff2.log(mirror, chart="polar").square().sum()  # the parity alone
    target = torch.diag(torch.tensor([-1.0, -2.0, 1.0]))  # no logarithm, det > 0
    delta = la.Aff2.log(target, chart="polar")[:6]
    assert losses.algebra_loss(la.Aff2, delta, eye, target, chart="polar") < 1e-10
