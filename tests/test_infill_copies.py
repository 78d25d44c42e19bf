"""Sets of parts: tokens with features, in a frame of their own, and answers that copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import lieattn as la
from lieattn._core.files import pack
from lieattn.models.infill.loss import infill_losses
from lieattn.models.infill.pointer import assemble, safest, with_position

GROUPS = list(la.available_groups().values())
SMALL = la.LieTransformerConfig.paper(dim=16, heads=2, layers=2, content=True)
NAMES = torch.eye(3)[torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])]  # what tokens of `parts` are


def at(*places: int) -> Tensor:
    """`[8]`, True at these places."""
    return torch.isin(torch.arange(8), torch.tensor(places))


def parts(group: la.Group, batch: int = 4, seed: int = 0) -> Tensor:
    """Sets of eight in which tokens of one kind have one linear part, at places of their own."""
    generator = torch.Generator().manual_seed(seed)
    linear = group.random(batch, 3, generator=generator, dtype=torch.float64)
    g = linear[:, NAMES.argmax(-1)]
    if group.matrix_size > group.n:
        g = with_position(g, group.random(batch, 8, generator=generator, dtype=torch.float64))
    return g


def copying(group: la.Group, **options: bool) -> la.InfillModel:
    torch.manual_seed(0)
    config = la.InfillConfig(encoder=SMALL, features=3, copies=True, **options)
    model = la.InfillModel(group, config).double()
    for p in (*model.transformer.correction[-1].parameters(), model.pointer.query.weight):
        torch.nn.init.normal_(p, std=0.1)
    torch.nn.init.constant_(model.pointer.alike, 20)  # certain of that
    return model


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_answers_that_copy_move_with_the_poses(group: la.Group) -> None:
    model, poses, hidden = copying(group), parts(group), at(3, 4)
    a = group.random(dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    known, names = hidden.expand(4, 8), NAMES.double().expand(4, 8, 3)
    model.measure(poses, missing=known, features=names)
    found = model.fill(poses, missing=known, features=names).poses
    moved = model.fill(group.compose(a, poses), missing=known, features=names).poses
    torch.testing.assert_close(moved, group.compose(a, found), atol=1e-9, rtol=1e-9)
    alone = model.fill(poses[1], missing=hidden, features=NAMES.double()).poses  # without a batch
    torch.testing.assert_close(alone, found[1], atol=1e-9, rtol=1e-9)
    # What is the same in all tokens of a kind is copied, to the last bit.
    n = group.n
    assert torch.equal(found[:, 3, :n, :n], poses[:, 0, :n, :n])


def test_options_are_chosen_part_by_part() -> None:
    """The linear part of one and the position of another; a guess where nothing is likely."""
    options = la.Aff2.random(1, 5, generator=torch.Generator().manual_seed(0))
    unit, votes = torch.ones(4), torch.zeros(1, 2, 5)
    votes[0, 0, 3] = votes[0, 1, 1] = 9
    chosen = safest(la.Aff2, unit, options, votes)
    assert chosen.tolist() == [[3, 1]]
    made = assemble(options, chosen)
    assert torch.equal(made, with_position(options[:, 3], options[:, 1]))
    votes[0, :, 2:] = -torch.inf
    votes[0, :, 1] = 1.0
    votes[0, :, 0] = 2.0
    assert safest(la.Aff2, unit, options, votes).tolist() == [[0, 0]]
    # Between two that are as likely, and a third that is in their middle: the third.
    angles = la.SO2.from_angle(torch.tensor([[0.1, -1.0, 1.0]]))
    votes = torch.tensor([[[0.0, 1.0, 1.0]]])
    assert safest(la.SO2, torch.ones(1), angles, votes).tolist() == [[0]]
    # What cannot be seen is no answer, wherever it is.
    votes = torch.tensor([[[1.0, -torch.inf, 1.0]]])
    for middle in (0.5, 0.1):
        angles = la.SO2.from_angle(torch.tensor([[-1.0, middle, 1.0]]))
        assert safest(la.SO2, torch.ones(1), angles, votes).item() in (0, 2)


def test_copies_are_learned() -> None:
    """Which of two tokens is copied is told by a feature: the votes learn it."""
    torch.manual_seed(0)
    model = la.InfillModel(la.SE3, la.InfillConfig(encoder=SMALL, features=3, copies=True))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    hidden, errors = at(4).expand(16, 8), []
    for step in range(60):
        poses = parts(la.SE3, 16, step).float()
        poses[:, 4] = with_position(poses[:, 0], poses[:, 5])  # of another kind, and a place
        names = NAMES.expand(16, 8, 3)
        out = model(poses, missing=hidden, features=names)
        errors.append(infill_losses(model, out, poses, missing=hidden).error.sum().item())
        optimiser.zero_grad()
        la.infill_loss(model, out, poses, missing=hidden).backward()
        optimiser.step()
    assert sum(errors[-5:]) < 0.05 * sum(errors[:5])


def test_a_frame_is_told_where_it_is_asked_for() -> None:
    poses, hidden = parts(la.SE3), at(3).expand(4, 8)
    a = la.SE3.exp(torch.tensor([1.0, 2.0, 3.0, 0.5, 0.2, 0.1]).double())
    shift = la.SE3.exp(torch.tensor([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]).double())
    names = NAMES.double().expand(4, 8, 3)
    for framed in (False, True):
        model = copying(la.SE3, absolute_frame=framed)
        votes = [
            model(la.SE3.compose(x, poses), missing=hidden, features=names).votes[hidden].exp()
            for x in (la.SE3.identity().double(), shift, a)
        ]
        torch.testing.assert_close(votes[0], votes[1])  # places are from the mean of visible ones
        assert torch.allclose(votes[0], votes[2]) is not framed


def test_checkpoints_keep_what_a_model_was_built_with(tmp_path: Path) -> None:
    options = {"second_differences": 1, "features": 3, "absolute_frame": True, "copies": True}
    model = la.InfillModel(la.Aff2, la.InfillConfig(encoder=SMALL, **options))
    model.save_pretrained(tmp_path)
    again = la.InfillModel.from_pretrained(tmp_path)
    assert again.config == model.config
    config, weights = tmp_path / "config.json", tmp_path / "model.safetensors"
    text, tensors = config.read_text(), load_file(weights)
    for right, wrong, message in (
        ('"copies": true', '"copies": -1', "copies must be true or false, got -1"),
        ('"copies": true', '"copies": "x"', "copies must be true or false, got 'x'"),
        ('"copies": true', '"other": 1', "unknown fields other"),
        (
            '"features": 3',
            '"features": -3',
            "features must be a whole number of at least 0, got -3",
        ),
    ):
        config.write_text(text.replace(right, wrong))
        weights.write_bytes(pack(tensors, json.loads(config.read_text())))
        with pytest.raises(la.CheckpointError, match=message):
            la.InfillModel.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="features must be a whole number of at least 0"):
        la.InfillConfig(features=-1)


def test_the_options_of_0_1_are_named_by_their_config() -> None:
    with pytest.raises(TypeError, match=r"bends= is now InfillConfig\(second_differences=\)"):
        la.InfillModel(la.SE2, bends=2)
    with pytest.raises(TypeError, match=r"Use InfillConfig\(encoder=LieTransformerConfig"):
        la.InfillModel(la.SE2, SMALL)


def test_features_that_are_missing_are_asked_for() -> None:
    model, poses, hidden = copying(la.SE2), parts(la.SE2), at(3).expand(4, 8)
    with pytest.raises(ValueError, match="this model reads 3 features a token: pass features="):
        model(poses, missing=hidden)
    plain = la.InfillModel(la.SE2, la.InfillConfig(encoder=SMALL))
    with pytest.raises(ValueError, match=r"no features; build it with InfillConfig\(features=3\)"):
        plain(poses.float(), missing=hidden, features=NAMES.expand(4, 8, 3))


def test_every_parameter_of_a_copying_model_learns() -> None:
    """Without features too, where no kinds are alike: DDP waits for the gradient of each."""
    poses, hidden = parts(la.SE3).float(), at(3).expand(4, 8)
    for features in (0, 3):
        config = la.InfillConfig(encoder=SMALL, features=features, copies=True)
        model = la.InfillModel(la.SE3, config)
        names = NAMES.expand(4, 8, 3) if features else None
        la.infill_loss(
            model, model(poses, missing=hidden, features=names), poses, missing=hidden
        ).backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_padding_may_hold_anything() -> None:
    model, poses = copying(la.Aff2), parts(la.Aff2)
    hidden, mask = at(3).expand(4, 8), (torch.arange(8) < 6).expand(4, 8)
    names = NAMES.double().expand(4, 8, 3)
    spoiled = torch.where(mask[..., None, None], poses, torch.nan)
    worse = torch.where(mask[..., None], names, torch.nan)
    plain = model(poses, missing=hidden, mask=mask, features=names)
    found = model(spoiled, missing=hidden, mask=mask, features=worse)
    assert torch.equal(plain.poses[mask], found.poses[mask])
    la.infill_loss(model, found, spoiled, missing=hidden).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    within = model.fill(poses, missing=hidden | ~mask, mask=mask, features=names).within
    assert (within[~mask] == 0).all()
