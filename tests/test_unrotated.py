"""Every model on groups without a rotation, and on groups with several translations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lieattn as la
from algebras import HEISENBERG, beside, dilations, translations
from lieattn.losses import completion_loss
from lieattn.models.baselines.vector import (
    PairCompletionModel,
    PairTransformer,
    VectorCompletionModel,
    VectorInfillModel,
    VectorTransformer,
)
from lieattn.models.infill.loss import infill_losses
from lieattn.testing import assert_equivariant
from unrotated import Dilations

GROUPS = [
    Dilations("Dil3", 3),
    la.T3,
    la.matrix_group("derived T2", translations(2)),
    la.matrix_group("T2 x Dil3", beside(translations(2), dilations(3))),
    la.product(la.T2, la.T3),
    la.matrix_group("SE3 x SE3", beside(*[la.SE3.basis(dtype=torch.float64)] * 2)),
    la.matrix_group("Heisenberg", HEISENBERG),
]
groups = pytest.mark.parametrize("group", GROUPS, ids=str)
Loss = Callable[[nn.Module, la.Group, Tensor], Tensor]
BESIDE = torch.tensor([False, True, True, False, False, False]).expand(4, 6)
SMALL: dict[str, Any] = {"dim": 8, "heads": 2, "layers": 2}


def pose_loss(model: nn.Module, group: la.Group, poses: Tensor) -> Tensor:
    out = model(poses)
    return out.delta.square().mean() + (out.poses - poses).square().mean() + out.hidden.mean()


def gap_loss(model: nn.Module, group: la.Group, poses: Tensor) -> Tensor:
    return completion_loss(group, model(poses[:, :6]), poses[:, 6], BESIDE)


def hidden_loss(model: nn.Module, group: la.Group, poses: Tensor) -> Tensor:
    hidden = (torch.arange(7) == 3).expand(4, 7)
    if (model.unit == 1).all():
        model.measure(poses, missing=hidden)
    losses = infill_losses(model, model(poses, missing=hidden), poses, missing=hidden)
    return losses.risk.mean()  # doubts follow the answers: their misfit may grow for a while


INFILL = {"copies": True, "analogies": True, "second_differences": 2, "absolute_frame": True}
MODELS: list[tuple[type[nn.Module], Loss, dict[str, Any], dict[str, Any]]] = [
    (la.LieTransformer, pose_loss, {}, {}),
    (la.LieTransformer, pose_loss, {"pose_updates": True, "detach_rotations": True}, {}),
    (la.LieTransformer, pose_loss, {"normalise": True, "content": True, "directed": True}, {}),
    (la.LieTransformer, pose_loss, {"score": "mlp", "chart_margin": 0.1}, {}),
    (la.CompletionModel, gap_loss, {}, {}),
    (la.InfillModel, hidden_loss, {"content": True, "normalise": True}, {}),
    (la.InfillModel, hidden_loss, {"content": True}, INFILL),
    (VectorTransformer, pose_loss, {}, {}),
    (VectorCompletionModel, gap_loss, {}, {}),
    (VectorInfillModel, hidden_loss, {}, INFILL),
    (PairTransformer, pose_loss, {}, {}),
    (PairCompletionModel, gap_loss, {}, {}),
]


@groups
def test_every_model_learns(group: la.Group) -> None:
    poses = group.random(4, 7, generator=torch.Generator().manual_seed(0))
    # Logarithms of large matrices take their time: products have three models.
    for kind, loss_of, options, own in MODELS if group.matrix_size <= 4 else MODELS[4:7]:
        torch.manual_seed(0)
        config: Any = la.LieTransformerConfig.paper(**SMALL, **options)
        if loss_of is hidden_loss:
            config = la.InfillConfig(encoder=config, **own)
        model = kind(group, config)
        optimiser = torch.optim.Adam(model.parameters(), 1e-3)
        losses = []
        for _ in range(3):
            optimiser.zero_grad()
            loss = loss_of(model, group, poses)
            loss.backward()
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            assert all(x.isfinite().all() for x in gradients), (kind, options)
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0], (kind, options, losses)


@groups
def test_poses_move_with_the_scene(group: la.Group) -> None:
    poses = group.random(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for options in ({}, {"normalise": True}, {"pose_updates": True}):
        torch.manual_seed(0)
        model = la.LieTransformer(group, la.LieTransformerConfig(**SMALL, **options)).double()
        assert_equivariant(lambda g, model=model: model(g).poses, group, poses, trials=2)


@groups
def test_large_sets_are_answered_too(group: la.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations that are computed by every layer, block by block."""
    poses = group.random(1, 24, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = la.LieTransformer(group, la.LieTransformerConfig(**SMALL, normalise=True))
    kept = model(poses)
    monkeypatch.setattr("lieattn.ops.policy.KEPT_BYTES", 0)
    torch.testing.assert_close(model(poses).hidden, kept.hidden, atol=1e-4, rtol=1e-4)


@groups
def test_nothing_depends_on_units_of_length_with_normalise(group: la.Group) -> None:
    poses = group.random(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.manual_seed(0)
    model = la.LieTransformer(group, la.LieTransformerConfig(**SMALL, normalise=True)).double()
    scaled = poses.clone()
    scaled[..., group.position_entries] *= 1e-4
    torch.testing.assert_close(model(scaled).hidden, model(poses).hidden)
