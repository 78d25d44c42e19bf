"""The paper's parameter counts at L = 3, H = 4, d = 32 (Sections 4.5 and 5)."""

import pytest
from torch import nn

import lieattn as la
from lieattn import LieTransformerConfig, scores


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def score_parameters(model: nn.Module) -> int:
    """Parameters of the outermost score modules."""
    found = [m for m in model.modules() if isinstance(m, la.LieAttention)]
    assert len(found) == 3
    return sum(count(m.score) for m in found)


@pytest.mark.parametrize(("group", "expected"), [("SE2", 36), ("SO3", 24), ("Aff2", 60)])
def test_closed_form_score_parameters(group: str, expected: int) -> None:
    assert (
        score_parameters(la.CompletionModel(la.get_group(group), LieTransformerConfig.paper()))
        == expected
    )


@pytest.mark.parametrize(("group", "expected"), [("SE2", 1932), ("SO3", 1932), ("Aff2", 3084)])
def test_learned_kernel_score_parameters(group: str, expected: int) -> None:
    config = LieTransformerConfig.paper(score="mlp")
    assert score_parameters(la.CompletionModel(la.get_group(group), config)) == expected


def test_totals_on_se2() -> None:
    assert count(la.CompletionModel(la.SE2, LieTransformerConfig.paper())) == 33_384
    assert count(la.CompletionModel(la.SE2, LieTransformerConfig.paper(score="mlp"))) == 35_280
    assert count(la.VectorCompletionModel(la.SE2)) == 39_524


@pytest.mark.parametrize(
    ("score", "per_head"),
    [("norm", 3), ("isotropic", 2), ("diagonal", 4), ("full", 7), ("mlp", 161)],
)
def test_parameters_a_head_on_se2(score: str, per_head: int) -> None:
    assert count(scores.make(score, la.SE2, heads=4)) == 4 * per_head
    assert count(scores.make(score, la.SE2, heads=4, directed=True)) == 4 * (per_head + 3)


def test_vector_features_are_the_papers() -> None:
    widths = {"SO2": 2, "SE2": 4, "SO3": 9, "SE3": 12, "Aff2": 6, "Aff3": 12}
    for name, width in widths.items():
        group = la.get_group(name)
        assert la.baselines.absolute_features(group, group.random(2, 5)).shape == (2, 5, width)
