"""Every registered rival, classical or neural: visible poses stay, hidden ones are not read."""

from __future__ import annotations

import pytest
import torch

import lieattn as la
from lieattn.geometry import predictors
from lieattn.geometry.predictors import PREDICTORS, Predictor
from lieattn.models import baselines
from lieattn.models.baselines import BASELINES, Baseline
from lieattn.workflows.preprocessing import make_model
from lieattn.workflows.settings import TrainSettings

GROUPS = la.available_groups()
HIDDEN = torch.tensor([[False, True, False, True, True, False], [False] * 3 + [True] * 3])


def given(group: la.Group) -> tuple[torch.Tensor, torch.Tensor]:
    """Poses close to the identity, so that all pairs have logarithms, and kinds of tokens."""
    x = 0.3 * torch.randn(2, 6, group.dim, generator=torch.Generator().manual_seed(0))
    return group.exp(x), torch.eye(2)[torch.tensor([[0, 1, 1, 0, 1, 0], [0, 0, 1, 0, 1, 1]])]


@pytest.mark.parametrize("group", GROUPS.values(), ids=str)
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_keep_what_is_visible_and_do_not_read_what_is_hidden(
    name: str, group: la.Group
) -> None:
    poses, features = given(group)
    predict = PREDICTORS[name].predict
    found = predict(group, poses, ~HIDDEN, features)
    assert found.shape == poses.shape
    assert found.dtype == poses.dtype
    assert torch.equal(found[~HIDDEN], poses[~HIDDEN])
    assert found.isfinite().all()
    other = poses.clone()
    other[HIDDEN] = torch.nan
    assert torch.equal(predict(group, other, ~HIDDEN, features), found)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_keep_what_is_visible_and_do_not_read_what_is_hidden(name: str) -> None:
    baseline = BASELINES[name]
    if not baseline.installed:
        pytest.skip(f"{baseline.requires} is not installed")
    group = next(group for group in GROUPS.values() if baseline.supports(group))
    settings = TrainSettings(files=("x",), model=name, dim=16, heads=2, layers=2)
    model = make_model(group, settings, la.LieTransformerConfig(dim=16, heads=2, layers=2), 0)
    assert isinstance(model, baseline.model)
    poses, _ = given(group)
    found = model(poses, missing=HIDDEN).poses
    assert torch.equal(found[~HIDDEN], poses[~HIDDEN])
    other = torch.where(HIDDEN[..., None, None], group.identity(), poses)
    torch.testing.assert_close(model(other, missing=HIDDEN).poses, found)


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(ValueError, match="'nearest' exists"):
        predictors.register(Predictor("nearest", "", PREDICTORS["geodesic"].predict))
    with pytest.raises(ValueError, match="'G' exists"):
        baselines.register(Baseline("G", "", BASELINES["A"].model))
    with pytest.raises(ValueError, match="one word in upper case, got 'mine'"):
        baselines.register(Baseline("mine", "", BASELINES["A"].model))
