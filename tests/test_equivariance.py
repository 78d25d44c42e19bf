"""Equivariance in float32, for every option; the limits are those of `lieattn.testing.FLOOR`."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lieattn as la
from lieattn import Group, LieTransformerConfig
from lieattn.testing import (
    FLOOR,
    allowed_error,
    assert_equivariant,
    assert_invariant,
    equivariance_error,
)

OPTIONS: dict[str, dict[str, object]] = {
    "norm": {},
    **{score: {"score": score} for score in la.scores.SCORES if score != "norm"},
    "log": {"positive": "log"},
    "directed": {"directed": True},
    "content": {"content": True},
    "polar": {"chart": "polar"},
    "self": {"exclude_self": False},
    "features": {"features": 3},
    "updates": {"pose_updates": True},
    "detached": {"pose_updates": True, "detach_rotations": True},
    "global": {"output": "global"},
    "normalise": {"normalise": True},
    "dropout": {"dropout": 0.2},
}
TARGETS = {"SO2": 1e-13, "SO3": 1e-13, "SE2": 1e-11, "SE3": 1e-11, "Aff2": 1e-10, "Aff3": 1e-10}


def model_of(group: Group, option: str, seed: int) -> la.LieTransformer:
    torch.manual_seed(seed)
    return la.LieTransformer(group, LieTransformerConfig.paper(**OPTIONS[option])).eval()


def arguments(model: la.LieTransformer, batch: int = 1, n: int = 32) -> dict[str, Tensor]:
    if not model.config.features:
        return {}
    generator = torch.Generator().manual_seed(9)
    return {"features": torch.randn(batch, n, 3, generator=generator)}


def poses_of(group: Group, seed: int) -> Tensor:
    return group.random(1, 32, generator=torch.Generator().manual_seed(seed))


def mean_error(group: Group, option: str, autocast: bool = False) -> float:
    """Over three random models and sets of 32 poses, ten random elements each."""
    total = 0.0
    for seed in range(3):
        model = model_of(group, option, seed)
        extra = arguments(model)

        def run(g: Tensor, model: nn.Module = model, extra: dict[str, Tensor] = extra) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                return model(g, **extra).poses

        total += equivariance_error(run, group, poses_of(group, seed))
    return total / 3


@pytest.mark.parametrize("option", OPTIONS)
def test_random_models_are_equivariant_in_float32(group: Group, option: str) -> None:
    limit = TARGETS.get(group.name, allowed_error(group, torch.float32))
    assert mean_error(group, option) <= limit


@pytest.mark.parametrize("option", ["norm", "mlp", "updates", "normalise"])
def test_autocast_to_bfloat16_does_not_cost_equivariance(group: Group, option: str) -> None:
    limit = TARGETS.get(group.name, allowed_error(group, torch.float32))
    assert mean_error(group, option, autocast=True) <= 10 * limit


def test_the_table_of_limits_is_the_one_that_is_tested() -> None:
    for name, limit in TARGETS.items():
        assert FLOOR[name.rstrip("23")] == limit


@pytest.mark.parametrize("option", ["updates", "normalise", "polar", "mlp", "content", "self"])
def test_options_matter(option: str) -> None:
    # An option that does nothing would pass every test of equivariance.
    g = poses_of(la.Aff2, 0)
    plain, other = model_of(la.Aff2, "norm", 0), model_of(la.Aff2, option, 0)
    assert (plain(g).poses - other(g).poses).abs().max() > 1e-3


def test_masks_biases_and_lists_keep_equivariance() -> None:
    model, g = model_of(la.SE3, "norm", 0), poses_of(la.SE3, 0)
    generator = torch.Generator().manual_seed(1)
    bias = torch.randn(1, 4, 32, 32, generator=generator)
    neighbours = torch.randint(-1, 32, (1, 32, 6), generator=generator)
    causal = torch.ones(1, 32, 32, dtype=torch.bool).tril()
    frozen = torch.rand(1, 32, generator=generator) < 0.5
    for options in (
        {"bias": bias},
        {"neighbours": neighbours},
        {"mask": causal},
        {"frozen": frozen},
        {"mask": ~frozen},
    ):
        error = equivariance_error(lambda x, options=options: model(x, **options), la.SE3, g)
        assert error <= TARGETS["SE3"], list(options)


def half_turns(group: Group, dtype: torch.dtype = torch.float32) -> Tensor:
    """Poses that differ by half turns about their own axes, and by steps on a grid."""
    generator = torch.Generator().manual_seed(4)
    x = torch.zeros(1, 32, group.dim, dtype=torch.float64)
    parts = dict(zip(group.blocks, x.split([b.dim for b in group.blocks], dim=-1), strict=True))
    turns = torch.randint(0, 4, (1, 32, 1), generator=generator) * torch.pi / 2
    for block, part in parts.items():
        if block.kind == "rotation":
            part[..., -1:] = turns * 2**0.5
        elif block.kind == "translation":
            part[:] = torch.randint(0, 3, part.shape)
    base = group.random(dtype=torch.float64, generator=generator)
    return group.compose(base, group.exp(x)).to(dtype)


@pytest.mark.parametrize("option", ["norm", "mlp", "polar", "normalise"])
def test_half_turns_keep_equivariance(group: Group, option: str, dtype: torch.dtype) -> None:
    # Grids, bricks and symmetric parts are full of them; the sign of w there hangs on rounding.
    g = half_turns(group, dtype)
    report = la.ChartMonitor(group, margin=0.01).update(g)
    assert report.near_cut + report.off_chart > 100 or not group.coordinates_of("rotation")
    for seed in range(3):
        model = model_of(group, option, seed).to(dtype)
        assert_equivariant(model, group, g)


def mirrored_parts(group: Group, dtype: torch.dtype) -> Tensor:
    """Frames of bricks: signed permutations of axes, half of them mirror images, on a grid."""
    generator = torch.Generator().manual_seed(7)
    n, count = group.n, 32
    axes = torch.stack([torch.randperm(n, generator=generator) for _ in range(count)])
    signs = torch.randint(0, 2, (count, n, 1), generator=generator).double() * 2 - 1
    linear = torch.eye(n, dtype=torch.float64)[axes] * signs
    places = torch.randint(0, 3, (count, n), generator=generator).double()
    base = group.random(dtype=torch.float64, generator=generator)
    return group.compose(base, group.from_parts(linear, places))[None].to(dtype)


@pytest.mark.parametrize("score", ["norm", "mlp"])
@pytest.mark.parametrize("group", [la.Aff2, la.Aff3], ids=str)
def test_in_the_polar_chart_every_pair_of_mirrored_parts_attends_and_moves_with_the_set(
    group: Group, score: str, dtype: torch.dtype
) -> None:
    g = mirrored_parts(group, dtype)
    others = ~torch.eye(g.shape[-3], dtype=torch.bool)
    margin = group.chart_margin("polar")
    near = ~group.in_chart(group.relative(g[:, :, None], g[:, None]), margin, "polar")
    assert (near & others).double().mean() > 0.1
    assert la.relations(group, g, g, "polar", margin=margin).valid.all()
    for seed in range(3):
        torch.manual_seed(seed)
        model = la.LieTransformer(group, LieTransformerConfig(score=score, chart="polar")).to(dtype)
        assert_equivariant(model, group, g)


@pytest.mark.parametrize(("group", "poses"), [(la.SE2, half_turns), (la.Aff3, mirrored_parts)])
def test_without_a_margin_half_turns_do_not(
    group: Group, poses: Callable[[Group, torch.dtype], Tensor]
) -> None:
    torch.manual_seed(0)
    config = LieTransformerConfig(score="mlp", chart="polar", chart_margin=0.0)
    g = poses(group, torch.float32)
    assert equivariance_error(la.LieTransformer(group, config), group, g) > 1e-6


def test_vector_tokens_are_not_equivariant(group: Group) -> None:
    torch.manual_seed(0)
    g = poses_of(group, 0)
    assert equivariance_error(la.VectorCompletionModel(group), group, g) > 1e-3
    assert equivariance_error(la.PairCompletionModel(group), group, g) > 1e-4


def test_pairs_with_an_invariant_payload_are_equivariant(group: Group) -> None:
    torch.manual_seed(0)
    model = la.baselines.PairTransformer(group, LieTransformerConfig(features=3))
    payload = torch.randn(1, 32, 3)
    error = equivariance_error(lambda g: model(g, features=payload), group, poses_of(group, 0))
    assert error <= allowed_error(group, torch.float32)


def test_completion_is_equivariant(group: Group) -> None:
    torch.manual_seed(0)
    model = la.CompletionModel(group)
    assert_equivariant(model, group)
    assert_equivariant(model.complete, group)


def test_float64_geometry_in_a_float32_network_is_exact() -> None:
    model = model_of(la.SE3, "norm", 0)
    g = la.SE3.random(1, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = model(g)
    assert out.poses.dtype == torch.float64
    assert out.hidden.dtype == torch.float32
    assert equivariance_error(model, la.SE3, g) < 1e-13


def test_a_failure_says_by_how_much() -> None:
    with pytest.raises(AssertionError, match=r"not equivariant under SE\(2\).*allowed 1.0e-11"):
        assert_equivariant(la.VectorCompletionModel(la.SE2), la.SE2)
    assert_equivariant(la.VectorCompletionModel(la.SE2), la.SE2, tolerance=1e9)
    with pytest.raises(TypeError, match="must return poses"):
        equivariance_error(lambda g: "poses", la.SE2, la.SE2.random(3))


def test_measuring_leaves_the_mode_as_it_was() -> None:
    model = la.LieTransformer(la.SE2, LieTransformerConfig(dropout=0.5)).train()
    assert_equivariant(model, la.SE2)
    assert model.training


def test_invariant_readouts_are_invariant(group: Group) -> None:
    torch.manual_seed(0)
    model, head = la.LieTransformer(group), la.InvariantReadout(32, 4)
    assert_invariant(lambda g: head(model(g).hidden), group)
    with pytest.raises(AssertionError, match="not invariant under"):
        assert_invariant(lambda g: model(g).poses, group)


def test_what_is_not_poses_is_sent_to_the_other_test() -> None:
    model = la.LieTransformer(la.SE3)
    with pytest.raises(ValueError, match=r"must return poses \[..., 4, 4\].*assert_invariant"):
        assert_equivariant(lambda g: model(g).hidden, la.SE3)


def test_a_failure_at_another_scale_says_so() -> None:
    poses = la.SE3.random(2, 8)
    poses[..., :3, 3] *= 1e4
    with pytest.raises(AssertionError, match="for poses of order 1: change the unit"):
        assert_equivariant(la.LieTransformer(la.SE3), la.SE3, poses)
