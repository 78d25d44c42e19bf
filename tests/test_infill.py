"""Interpolation, the model that corrects it, its losses and its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn.geometry.interpolation import around, bends, interpolate, neighbours_in_order
from lieattn.models.infill.features import place_features
from lieattn.models.infill.loss import infill_losses
from lieattn.models.infill.model import LEVELS

GROUPS = list(la.available_groups().values())
SMALL = la.LieTransformerConfig.paper(dim=16, heads=2, layers=2, content=True)
PLAIN = la.InfillConfig(encoder=SMALL)


def walk(group: la.Group, n: int, seed: int = 0, batch: int = 3) -> Tensor:
    """Constant steps, g, g h, g h h, ...: what interpolation has right."""
    generator = torch.Generator().manual_seed(seed)
    step = 0.1 * torch.randn(batch, 1, group.dim, generator=generator, dtype=torch.float64)
    start = group.random(batch, 1, generator=generator, dtype=torch.float64)
    return group.compose(start, group.exp(torch.arange(n)[:, None] * step))


def hidden_some(n: int, *places: int) -> Tensor:
    return torch.isin(torch.arange(n), torch.tensor(places))


def trained(group: la.Group, bends: int = 0) -> la.InfillModel:
    """A model whose head is no longer zero."""
    torch.manual_seed(0)
    config = la.InfillConfig(encoder=SMALL, second_differences=bends)
    model = la.InfillModel(group, config)
    for p in model.transformer.correction[-1].parameters():
        torch.nn.init.normal_(p, std=0.1)
    return model


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_interpolation_is_exact_on_one_parameter_subgroups(group: la.Group) -> None:
    if group.name.startswith("Aff"):
        pytest.skip("the polar chart's segments are others")
    poses = walk(group, 9)
    hidden = hidden_some(9, 2, 5, 6)
    spoiled = torch.where(hidden[:, None, None], torch.nan, poses)
    found = interpolate(group, spoiled, (~hidden).expand(3, 9))
    torch.testing.assert_close(found, poses, atol=1e-12, rtol=1e-12)  # not of float32 anywhere
    assert torch.equal(found[:, ~hidden], poses[:, ~hidden])


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_interpolation_moves_with_the_poses(group: la.Group) -> None:
    generator = torch.Generator().manual_seed(1)
    poses = group.random(2, 7, generator=generator, dtype=torch.float64)
    a = group.random(generator=generator, dtype=torch.float64)
    visible = ~hidden_some(7, 0, 3, 6).expand(2, 7)
    moved = interpolate(group, group.compose(a, poses), visible)
    expected = group.compose(a, interpolate(group, poses, visible))
    torch.testing.assert_close(moved, expected, atol=1e-8, rtol=1e-8)


def test_ends_mirrors_and_empty_sets_have_a_guess() -> None:
    poses = la.Aff2.random(5)
    poses[3:] = poses[3:] @ torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    found = interpolate(la.Aff2, poses, ~hidden_some(5, 0, 2, 4))
    assert torch.equal(found[0], poses[1])
    assert torch.equal(found[4], poses[3])
    assert torch.equal(found[2], poses[1])  # half way to a mirror image there is nothing
    nothing = interpolate(la.SE2, la.SE2.random(3), torch.zeros(3, dtype=torch.bool))
    assert torch.equal(nothing, la.SE2.identity(3))
    near = neighbours_in_order(torch.tensor([[False, True], [False, False]]))
    assert near.some.tolist() == [True, False]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_bends_are_zero_on_a_line_and_stay_where_the_set_moves(group: la.Group) -> None:
    generator = torch.Generator().manual_seed(3)
    visible = (~hidden_some(9, 0, 3, 4, 8)).expand(3, 9)
    if not group.name.startswith("Aff"):  # lines of the polar chart are others
        line = walk(group, 9)
        found = bends(group, interpolate(group, line, visible), visible, 2)
        inner = found[:, 3:5]
        assert inner[..., 1:, :].abs().max() < 1e-9
        step = group.log_relative(line[:, 3], line[:, 4])
        torch.testing.assert_close(inner[:, 0, 0], step, atol=1e-9, rtol=1e-9)
    poses = group.random(3, 9, generator=generator, dtype=torch.float64)
    a = group.random(generator=generator, dtype=torch.float64)
    here, there = (
        bends(group, interpolate(group, g, visible), visible, 2)
        for g in (poses, group.compose(a, poses))
    )
    torch.testing.assert_close(here, there, atol=1e-7, rtol=1e-7)
    assert here[:, visible[0]].abs().max() == 0


def test_bends_are_second_differences() -> None:
    """On a line of numbers, x = t^2 at t = 0, 1, 3, 4, 5, with t = 2 hidden."""
    t = torch.arange(6.0, dtype=torch.float64)
    rows = torch.stack([t.square(), 0 * t, 0 * t], -1)
    visible = ~hidden_some(6, 2)
    guess = interpolate(la.SE2, la.SE2.from_xy_theta(rows), visible)
    found = bends(la.SE2, guess, visible, 3)[2]
    # The line: 1 at t = 1 to 9 at t = 3, so 5 at t = 2, and 4 a step.
    assert found[0].tolist() == [4, 0, 0]
    # t = 0: 0 - 5 + 8; t = 4: 16 - 5 - 8; no second one before; t = 5: 25 - 5 - 12.
    assert found[1:, 0].tolist() == [3, 3, 0, 8, 0, 0]
    at_end = bends(la.SE2, interpolate(la.SE2, guess, ~hidden_some(6, 5)), ~hidden_some(6, 5), 1)
    assert at_end[5, :, 0].tolist() == [0, 9 - 16, 0]  # from a copy of the last: no line


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_an_untrained_model_is_interpolation(group: la.Group, count: int) -> None:
    poses, hidden = walk(group, 8).float(), hidden_some(8, 1, 4, 5).expand(3, 8)
    config = la.InfillConfig(encoder=SMALL, second_differences=count)
    done = la.InfillModel(group, config).fill(poses, missing=hidden)
    torch.testing.assert_close(done.poses, interpolate(group, poses, ~hidden))
    assert (done.within[~hidden] == 0).all()
    assert (done.within[hidden] > 0).all()


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_answers_move_with_the_set_and_doubts_stay(group: la.Group, count: int) -> None:
    generator = torch.Generator().manual_seed(2)
    model = trained(group, count)
    poses = walk(group, 8)
    hidden = hidden_some(8, 2, 3, 6).expand(3, 8)
    a = group.random(generator=generator, dtype=torch.float64)
    one = model(poses, missing=hidden)
    other = model(group.compose(a, poses), missing=hidden)
    moved = group.compose(a, one.poses)
    torch.testing.assert_close(other.poses, moved, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(other.log_error, one.log_error, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(one.delta[hidden], torch.zeros(()).double(), atol=1e-3)


@pytest.mark.parametrize("count", [0, 2])
def test_hidden_poses_and_padding_are_not_looked_at(count: int) -> None:
    model = trained(la.SE3, count)
    poses = la.SE3.random(2, 6)
    hidden = hidden_some(6, 2).expand(2, 6)
    mask = torch.arange(6) < torch.tensor([[6], [5]])
    spoiled = torch.where((hidden | ~mask)[..., None, None], torch.nan, poses)
    one, other = model(poses, missing=hidden, mask=mask), model(spoiled, missing=hidden, mask=mask)
    assert torch.equal(one.poses[hidden], other.poses[hidden])
    assert torch.equal(one.log_error[mask], other.log_error[mask])
    shorter = model(poses[1:, :5], missing=hidden[1:, :5])
    torch.testing.assert_close(one.poses[1:, :5], shorter.poses, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", [la.InfillModel, la.VectorInfillModel])
@pytest.mark.parametrize("options", [{}, {"pose_updates": True}, {"normalise": True}])
def test_training_beats_interpolation(model: type[la.InfillModel], options: dict) -> None:
    if model is la.VectorInfillModel and options:
        pytest.skip("vector tokens have no such option")
    torch.manual_seed(0)
    t = torch.linspace(0, 3, 12, dtype=torch.float64)

    def circles(n: int) -> Tensor:  # a position on a circle, seen every few steps
        phase = 6 * torch.rand(n, 1, dtype=torch.float64)
        rows = torch.stack([(t + phase).cos(), (t + phase).sin(), 0 * t + phase], -1)
        return la.SE2.from_xy_theta(rows).float()

    encoder = la.LieTransformerConfig.paper(dim=16, heads=2, layers=2, content=True, **options)
    net = model(la.SE2, la.InfillConfig(encoder=encoder))
    hidden = hidden_some(12, 4, 5, 6).expand(64, 12)
    net.measure(circles(64), missing=hidden)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    first = None
    for _ in range(60):
        poses = circles(64)
        out = net(poses, missing=hidden)
        loss = infill_losses(net, out, poses, missing=hidden).error.sum() / hidden.sum()
        first = first or loss.item()
        optimiser.zero_grad()
        la.infill_loss(net, out, poses, missing=hidden).backward()
        optimiser.step()
    assert loss.item() < 0.5 * first


def test_bends_find_what_attention_takes_long_to_learn() -> None:
    """Smooth motions at random: second differences tell most of what interpolation misses."""
    generator = torch.Generator().manual_seed(0)
    t = torch.arange(12, dtype=torch.float64)[:, None]

    def motions(n: int) -> Tensor:
        phase, size = torch.rand(2, n, 1, 6, generator=generator, dtype=torch.float64)
        w = size * (t / 2 + 7 * phase).sin()
        return la.SE3.exp(la.SE3.from_physical(w)).float()

    hidden = hidden_some(12, 3, 7, 8).expand(32, 12)

    def left_after(count: int) -> float:
        torch.manual_seed(0)
        net = la.InfillModel(la.SE3, la.InfillConfig(encoder=SMALL, second_differences=count))
        net.measure(motions(64), missing=hidden_some(12, 3, 7, 8).expand(64, 12))
        optimiser = torch.optim.Adam(net.parameters(), 3e-3)
        errors = []
        for _ in range(60):
            poses = motions(32)
            out = net(poses, missing=hidden)
            errors.append(infill_losses(net, out, poses, missing=hidden).error.sum().item())
            optimiser.zero_grad()
            la.infill_loss(net, out, poses, missing=hidden).backward()
            optimiser.step()
        return sum(errors[-10:]) / 10 / errors[0]

    assert left_after(2) < 0.5 < left_after(0)


def test_units_are_the_errors_of_interpolation() -> None:
    model = la.InfillModel(la.SE2, PLAIN)
    rows = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 3.0, 0.2], [2.0, 0.0, 0.0]]])
    hidden = hidden_some(3, 1)[None]
    model.measure(la.SE2.from_xy_theta(rows), missing=hidden)
    assert model.unit.tolist() == pytest.approx([3.0, 0.2], rel=0.01)
    untouched = la.InfillModel(la.SE2, PLAIN)
    untouched.measure(
        la.SE2.identity(1, 3), missing=hidden
    )  # interpolation is exact: nothing to divide by
    assert untouched.unit.tolist() == [1, 1]


def test_losses_count_hidden_tokens_alone() -> None:
    model = trained(la.SE3)
    poses = la.SE3.random(2, 6)
    hidden = hidden_some(6, 2).expand(2, 6)
    losses = infill_losses(model, model(poses, missing=hidden), poses, missing=hidden)
    assert (losses.error[~hidden] == 0).all()
    assert (losses.error[hidden] > 0).all()
    whole = la.infill_loss(model, model(poses, missing=hidden), poses, missing=hidden)
    assert whole.item() == pytest.approx(
        ((losses.risk + 0.1 * losses.misfit).sum() / 2).item(), rel=1e-5
    )
    assert torch.equal(losses.risk.detach(), losses.error)  # nothing can be copied


def test_doubts_do_not_change_answers() -> None:
    model = trained(la.SE2)
    poses, hidden = la.SE2.random(2, 6), hidden_some(6, 2).expand(2, 6)
    infill_losses(
        model, model(poses, missing=hidden), poses, missing=hidden
    ).misfit.sum().backward()
    assert model.doubt.weight.grad is not None
    assert all(p.grad is None or not p.grad.any() for p in model.transformer.parameters())


def test_bounds_hold_as_often_as_they_say() -> None:
    """Split-conformal prediction, on errors that the doubts know the size of up to a factor."""
    torch.manual_seed(0)
    model = la.InfillModel(la.SE3, PLAIN)
    doubt = torch.randn(4000, 2)
    errors = (torch.randn(4000, 2) * 3 * doubt.exp()).abs()
    model.calibrate(errors[:2000], doubt[:2000])
    for i, level in enumerate(LEVELS):
        bound = doubt[2000:].exp() * model.factors[:, i]
        held = (errors[2000:] <= bound).double().mean(0)
        assert torch.allclose(held, torch.tensor(level).double(), atol=0.03)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_checkpoints_keep_units_bounds_and_bends(count: int, tmp_path: Path) -> None:
    model = trained(la.Aff2, count)
    model.calibrate(torch.rand(50, 4), torch.zeros(50, 4))
    model.save_pretrained(tmp_path)
    again = la.InfillModel.from_pretrained(tmp_path)
    assert again.config == model.config
    assert again.config.second_differences == count
    poses, hidden = la.Aff2.random(5), hidden_some(5, 2)
    for one, other in zip(
        model.fill(poses, missing=hidden), again.fill(poses, missing=hidden), strict=True
    ):
        assert torch.equal(one, other)


def test_bad_calls_are_met_with_a_sentence() -> None:
    model = la.InfillModel(la.SE2, PLAIN)
    poses = la.SE2.random(2, 3)
    with pytest.raises(ValueError, match="set 1 has no visible pose"):
        model.fill(poses, missing=torch.tensor([[True, False, False], [True, True, True]]))
    with pytest.raises(ValueError, match=r"level must be one of 0.5, 0.8, 0.9, 0.95, got 0.7"):
        model.fill(poses, missing=hidden_some(3, 1).expand(2, 3), level=0.7)


def test_features_are_of_places_alone() -> None:
    hidden = hidden_some(5, 1, 2)
    marks = place_features(~hidden, hidden)
    assert marks[:, 0].tolist() == [0, 1, 1, 0, 0]
    assert marks[:, 1].tolist() == [0, 1, 0.5, 0, 0]
    assert marks[:, 2].tolist() == [0, 0.5, 1, 0, 0]


def test_vector_tokens_do_not_mind_where_the_origin_is() -> None:
    torch.manual_seed(0)
    model = la.VectorInfillModel(la.SE2, PLAIN)
    torch.nn.init.normal_(model.transformer.correction[-1].weight)
    poses, hidden = la.SE2.random(2, 6), hidden_some(6, 2).expand(2, 6)
    a = la.SE2.from_xy_theta(torch.tensor([3.0, -2.0, 0.0]))
    moved = model(la.SE2.compose(a, poses), missing=hidden).poses
    torch.testing.assert_close(moved, la.SE2.compose(a, model(poses, missing=hidden).poses))
    turned = la.SE2.from_xy_theta(torch.tensor([0.0, 0.0, 1.0]))
    other = model(la.SE2.compose(turned, poses), missing=hidden).poses
    assert not torch.allclose(
        other, la.SE2.compose(turned, model(poses, missing=hidden).poses), atol=1e-2
    )


def test_around_is_what_one_would_count() -> None:
    generator = torch.Generator().manual_seed(0)
    visible = torch.rand(40, 9, generator=generator) < 0.5
    for skip in (0, 1):
        found = around(visible, 2, skip)
        for row, seen in enumerate(visible.tolist()):
            for i in range(9):
                before = [j for j in range(i - 1, -1, -1) if seen[j]][skip : skip + 2]
                after = [j for j in range(i + 1, 9) if seen[j]][skip : skip + 2]
                for k in range(2):
                    for side, there in enumerate((before, after)):
                        at = (row, i, 2 * k + side)
                        assert found.there[at].item() == (k < len(there))
                        assert found.tokens[at].item() == (there[k] if k < len(there) else i)


def test_interpolation_refuses_what_is_no_mask() -> None:
    poses = la.SE3.random(5)
    with pytest.raises(TypeError, match=r"visible must be a torch\.Tensor"):
        la.interpolate(la.SE3, poses, [True] * 5)  # type: ignore[arg-type]
    for visible in (torch.ones(5), torch.ones(6, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"visible must be boolean of shape \[5\]"):
            la.interpolate(la.SE3, poses, visible)
