"""`LieTransformer`: sets of any size, padding, order, and what each option does."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group, LieTransformerConfig

VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "mlp": {"score": "mlp"},
    "content": {"content": True},
    "updates": {"pose_updates": True},
    "normalise": {"normalise": True},
}


def model_of(group: Group, seed: int = 0, **options: object) -> la.LieTransformer:
    torch.manual_seed(seed)
    return la.LieTransformer(group, LieTransformerConfig(**options)).eval()


def poses_of(group: Group, *batch: int, seed: int = 0) -> Tensor:
    """Poses around one, well on the chart: what is compared is padding, not the cut."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.4 * torch.randn(*batch, group.dim, generator=generator)
    return group.compose(group.random(generator=generator), group.exp(x))


def difference(a: la.LieTransformerOutput, b: la.LieTransformerOutput) -> float:
    """Largest difference, in units of the largest entry where that exceeds 1."""
    pairs = [(a.hidden, b.hidden), (a.delta, b.delta), (a.poses, b.poses)]
    return max((x - y).abs().max().item() / max(1, y.abs().max().item()) for x, y in pairs)


def part(out: la.LieTransformerOutput, index: object) -> la.LieTransformerOutput:
    return la.LieTransformerOutput(*(x[index] for x in out))


# ---- padding and order -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("filler", ["poses", "zeros", "nan"])
def test_padding_to_twice_the_size_changes_nothing(group: Group, variant: str, filler: str) -> None:
    model, n = model_of(group, **VARIANTS[variant]), 6
    poses = poses_of(group, 2, n)
    fill = {
        "poses": group.random(2, n),
        "zeros": torch.zeros_like(poses),
        "nan": torch.full_like(poses, torch.nan),
    }[filler]
    padded = torch.cat([poses, fill], dim=1)
    mask = torch.arange(2 * n).expand(2, -1) < n
    out = model(padded, mask=mask)
    assert difference(part(out, (slice(None), slice(n))), model(poses)) < 1e-6
    torch.testing.assert_close(out.poses[:, n:], fill, equal_nan=True, rtol=0, atol=0)
    assert not out.delta[:, n:].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_permuting_tokens_permutes_outputs(group: Group, variant: str) -> None:
    model, poses = model_of(group, **VARIANTS[variant]), poses_of(group, 2, 9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))
    index = (slice(None), order)
    assert difference(model(poses[index]), part(model(poses), index)) < 1e-5


def test_sets_of_a_batch_do_not_see_each_other() -> None:
    model, poses = model_of(la.SE3, normalise=True), poses_of(la.SE3, 3, 5)
    assert difference(part(model(poses), 1), model(poses[1])) < 1e-6


def test_masks_of_pairs_can_be_causal() -> None:
    model, poses = model_of(la.SE3, normalise=False), poses_of(la.SE3, 2, 8)
    causal = torch.ones(1, 8, 8, dtype=torch.bool).tril()
    changed = poses.clone()
    changed[:, 5:] = la.SE3.random(2, 3)
    before = (slice(None), slice(5))
    a, b = model(poses, mask=causal), model(changed, mask=causal)
    assert difference(part(a, before), part(b, before)) < 1e-6
    assert difference(a, b) > 1e-2


def test_a_causal_mask_is_refused_where_scales_would_leak() -> None:
    model, poses = model_of(la.SE3, normalise=True), poses_of(la.SE3, 2, 8)
    causal = torch.ones(8, 8, dtype=torch.bool).tril()
    bias = torch.zeros(8, 8).masked_fill(~causal, -torch.inf)
    ragged = causal & (torch.arange(8) < torch.tensor([8, 5])[:, None, None])
    for given in ({"mask": causal[None]}, {"mask": ragged}, {"bias": bias}):
        with pytest.raises(ValueError, match=r"causal.*normalise=False"):
            model(poses, **given)
        assert model_of(la.SE3, normalise=False)(poses, **given).hidden.isfinite().all()
    # No token sees an earlier one, so nothing can leak; or all see each other; or there is one.
    one, pair = torch.eye(8, dtype=torch.bool)[None], causal | causal.mT
    for mask in (one, pair[None], torch.zeros_like(one)):
        assert model(poses, mask=mask).hidden.isfinite().all()
    alone = torch.ones(1, 1, 1, dtype=torch.bool)
    assert model(poses[:, :1], mask=alone).hidden.isfinite().all()


def test_lists_of_all_tokens_are_no_lists() -> None:
    for variant in ({}, {"normalise": True}, {"content": True}):
        model, poses = model_of(la.SE3, **variant), poses_of(la.SE3, 2, 8)
        mask = torch.arange(8).expand(2, -1) < torch.tensor([[8], [5]])
        everyone = torch.arange(8).expand(2, 8, 8)
        listed = model(poses, mask=mask, neighbours=everyone)
        real = torch.where(mask)
        assert difference(part(listed, real), part(model(poses, mask=mask), real)) < 1e-5


# ---- small and empty sets ----------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_small_sets_are_finite_with_finite_gradients(
    group: Group, variant: str, count: int
) -> None:
    model = model_of(group, **VARIANTS[variant])
    poses = group.random(2, count).requires_grad_()
    check_finite(model, poses, model(poses))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_set_of_padding_only_is_finite_with_finite_gradients(group: Group, variant: str) -> None:
    model = model_of(group, **VARIANTS[variant])
    poses = group.random(2, 4).requires_grad_()
    mask = torch.tensor([[True] * 4, [False] * 4])
    check_finite(model, poses, model(poses, mask=mask))


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_poses_are_finite_with_finite_gradients(group: Group, variant: str) -> None:
    model = model_of(group, **VARIANTS[variant])
    poses = group.random(1, 1).expand(1, 4, -1, -1).clone().requires_grad_()
    check_finite(model, poses, model(poses))


def check_finite(model: la.LieTransformer, poses: Tensor, out: la.LieTransformerOutput) -> None:
    assert all(x.isfinite().all() for x in out)
    loss = out.hidden.square().sum() + out.delta.square().sum() + out.poses.square().sum()
    leaves = [poses, *model.parameters()]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in gradients)


# ---- options -----------------------------------------------------------------------------------


def test_the_output_pose_is_the_frame_moved_by_delta(group: Group) -> None:
    for options in ({}, {"pose_updates": True}):
        out = model_of(group, **options)(group.random(2, 5))
        expected = group.compose(out.frames, group.exp(out.delta))
        torch.testing.assert_close(out.poses, expected)


@pytest.mark.parametrize("options", [{}, {"pose_updates": True}])
def test_frozen_tokens_stay_and_are_still_seen(options: dict[str, object]) -> None:
    model, poses = model_of(la.SE3, **options), poses_of(la.SE3, 2, 6)
    frozen = torch.tensor([[True, False, True, False, False, True]] * 2)
    out = model(poses, frozen=frozen)
    assert torch.equal(out.poses[frozen], poses[frozen])
    assert not out.delta[frozen].any()
    assert (out.poses[~frozen] - poses[~frozen]).abs().max() > 1e-3
    elsewhere = torch.where(frozen[..., None, None], la.SE3.random(2, 6), poses)
    assert difference(part(model(elsewhere, frozen=frozen), ~frozen), part(out, ~frozen)) > 1e-3


def test_pose_updates_move_the_frames_and_can_detach_rotations() -> None:
    poses = poses_of(la.SE3, 1, 5)
    model = model_of(la.SE3, pose_updates=True)
    assert (model(poses).frames - poses).abs().max() > 1e-3
    gradients = {}
    for detach in (False, True):
        model = model_of(la.SE3, pose_updates=True, detach_rotations=detach)
        model(poses).hidden.square().sum().backward()
        gradients[detach] = model.updates[0][1].weight.grad
    # The first three rows make translations, the others rotations.
    assert gradients[False][3:].abs().max() > 1e-5
    assert gradients[True][:3].abs().max() > 1e-5
    assert (gradients[True][3:] - gradients[False][3:]).abs().max() > 1e-5


def test_detaching_without_translations_detaches_all() -> None:
    model = model_of(la.SO3, pose_updates=True, detach_rotations=True)
    model(la.SO3.random(1, 5)).hidden.square().sum().backward()
    assert model.updates[0][1].weight.grad is None


def test_the_global_output_reaches_what_the_exponential_cannot() -> None:
    # A reflection of two axes with unequal stretch has no real logarithm, det > 0 all the same.
    target = torch.diag(torch.tensor([-1.0, -2.0, 1.0]))
    assert la.Aff2.log(target).isnan().all()
    delta = la.Aff2.log(target, chart="polar")[: la.Aff2.dim]
    model = model_of(la.Aff2, output="global", normalise=False)
    last = model.correction[2]
    last.weight.data.zero_()
    last.bias.data.copy_(delta)
    poses = poses_of(la.Aff2, 1, 4)
    expected = la.Aff2.compose(poses, target)
    torch.testing.assert_close(model(poses).poses, expected, rtol=1e-5, atol=1e-5)


def test_normalised_sets_do_not_know_their_scale() -> None:
    # On SO(2) scaling w is scaling the angles.
    model = model_of(la.SO2, normalise=True)
    angles = torch.tensor([0.1, 0.25, 0.3, 0.7])
    small, large = (model(la.SO2.from_angle(s * angles)) for s in (1.0, 3.0))
    torch.testing.assert_close(small.hidden, large.hidden, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(3 * small.delta, large.delta, rtol=1e-4, atol=1e-5)


def test_normalised_sets_do_not_know_the_unit_of_translations() -> None:
    model, poses = model_of(la.SE3, normalise=True), poses_of(la.SE3, 2, 6)
    small = model(poses)
    poses = poses.clone()
    poses[..., :3, 3] *= 1000
    large = model(poses)
    moved = small.delta[..., :3], large.delta[..., :3] / 1000
    torch.testing.assert_close(small.hidden, large.hidden, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(*moved, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(small.delta[..., 3:], large.delta[..., 3:], rtol=1e-3, atol=1e-4)


def test_masks_of_pairs_know_padding_too() -> None:
    model, poses = model_of(la.SE3, normalise=False), poses_of(la.SE3, 2, 6)
    real = torch.arange(6) < torch.tensor([[6], [4]])
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    pairs = causal & real[:, None] & real[:, :, None]
    poses = torch.where(real[..., None, None], poses, torch.nan)
    out = model(poses, mask=pairs)
    assert not out.delta[~real].any()
    assert out.hidden.isfinite().all()
    alone = model(poses[1, :4], mask=causal[:4, :4])
    assert difference(part(out, (1, slice(4))), alone) < 1e-6


def test_features_tell_tokens_apart() -> None:
    model, poses = model_of(la.SE2, features=2), poses_of(la.SE2, 1, 5)
    a, b = (model(poses, features=torch.full((1, 5, 2), x)) for x in (0.0, 1.0))
    assert difference(a, b) > 1e-2


def test_bare_tokens_start_from_the_same_state() -> None:
    model = model_of(la.SE2)
    h = model._embed(poses_of(la.SE2, 1, 5), None)
    assert torch.equal(h[:, :1].expand_as(h), h)


def test_dropout_acts_in_training_only() -> None:
    model, poses = model_of(la.SE2, dropout=0.5), poses_of(la.SE2, 1, 5)
    assert difference(model(poses), model(poses)) == 0
    model.train()
    assert difference(model(poses), model(poses)) > 1e-3


def test_cross_attention_reads_another_set() -> None:
    layer = la.LieAttention(la.SE3, 32, 4)
    h, context = torch.randn(2, 3, 32), torch.randn(2, 5, 32)
    g, k = la.SE3.random(2, 3), la.SE3.random(2, 5)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    out = layer(h, g, context=context, context_poses=k, mask=mask)
    alone = layer(h[1:], g[1:], context=context[1:, :2], context_poses=k[1:, :2])
    torch.testing.assert_close(out[1:], alone)


# ---- what may come with a set ------------------------------------------------------------------


def test_features_of_padding_may_hold_anything() -> None:
    model, poses = model_of(la.SE3, features=3), poses_of(la.SE3, 1, 5)
    mask, features = torch.tensor([[True] * 3 + [False] * 2]), torch.randn(1, 5, 3)
    features[0, 3:] = torch.nan
    out = model(poses, mask=mask, features=features)
    assert out.poses.isfinite().all()
    assert out.hidden.isfinite().all()


def test_a_pose_out_of_all_proportion_leaves_the_others_alone() -> None:
    poses = poses_of(la.SE3, 1, 5)
    poses[0, 4, :3, 3] = 1e18
    out = model_of(la.SE3)(poses)
    assert out.hidden.isfinite().all()
    assert out.poses.isfinite().all()
    poses[0, 4, :3, 3] = 1e20
    with pytest.raises(ValueError, match=r"poses\[0, 4\] is out of range"):
        model_of(la.SE3)(poses)


def test_biases_of_pairs_are_for_all_sets_and_heads() -> None:
    model, poses, bias = model_of(la.SE3), poses_of(la.SE3, 4, 4), torch.randn(4, 4)
    whole = bias.expand(4, 4, 4, 4)
    assert difference(model(poses, bias=bias), model(poses, bias=whole)) == 0


def test_a_layer_may_choose_its_backend() -> None:
    h, poses = torch.randn(2, 5, 8), la.SE3.random(2, 5)
    found = []
    for backend in ("reference", "tiled", "auto"):
        torch.manual_seed(0)
        found.append(la.LieAttention(la.SE3, 8, 2, backend=backend)(h, poses))
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])
    with pytest.raises(ValueError, match="unknown backend 'warp'"):
        la.LieAttention(la.SE3, 8, 2, backend="warp")


def test_a_layers_mask_is_read_by_the_batch() -> None:
    # As many sets as queries, and one context for all: [B, Nk] must not be read as [Nq, Nk].
    layer, h, g = la.LieAttention(la.SE3, 32, 4), torch.randn(5, 5, 32), poses_of(la.SE3, 5, 5)
    context, context_poses = torch.randn(7, 32), poses_of(la.SE3, 7, seed=1)
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) > 0.4
    shared = layer(h, g, context=context, context_poses=context_poses, mask=mask)
    each = layer(
        h,
        g,
        context=context.expand(5, 7, 32),
        context_poses=context_poses.expand(5, 7, 4, 4),
        mask=mask,
    )
    torch.testing.assert_close(shared, each)


def test_batched_states_on_shared_poses() -> None:
    g, h = poses_of(la.SE3, 5), torch.randn(2, 5, 32)
    mask, bias = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]), torch.randn(2, 4, 5, 5)
    for content in (False, True):
        layer = la.LieAttention(la.SE3, 32, 4, content=content)
        shared = layer(h, g, mask=mask, bias=bias)
        each = layer(h, g.expand(2, -1, -1, -1), mask=mask, bias=bias)
        torch.testing.assert_close(shared[mask], each[mask], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filler", [0.0, torch.nan])
def test_a_layers_padding_spoils_no_gradient(group: Group, filler: float) -> None:
    mask = torch.tensor([[True] * 3 + [False] * 2])
    g = torch.where(mask[..., None, None], poses_of(group, 1, 5), filler).requires_grad_()
    out = la.LieAttention(group, 32, 4)(torch.randn(1, 5, 32), g, mask=mask)
    out[mask].sum().backward()
    assert g.grad.isfinite().all()


def test_a_layer_follows_one_that_left_bfloat16() -> None:
    layer, g = la.LieAttention(la.SE3, 32, 4), poses_of(la.SE3, 1, 5)
    h = torch.randn(1, 5, 32).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(h, g).dtype == torch.float32


def test_groups_are_known_by_name() -> None:
    assert la.LieTransformer("SE(3)").group is la.SE3
    assert la.CompletionModel("Aff2").group is la.Aff2
    assert la.LieAttention("so3", 8, 2).group is la.SO3
    poses = la.SE2.random(3)
    by_name = la.lie_attention("SE2", poses, poses, torch.ones(1, 3, 1), torch.ones(1, 2))
    by_group = la.lie_attention(la.SE2, poses, poses, torch.ones(1, 3, 1), torch.ones(1, 2))
    assert torch.equal(by_name[1], by_group[1])


def test_models_have_shapes_without_data(group: Group) -> None:
    with torch.device("meta"):
        model = la.CompletionModel(group)
        poses = torch.empty(2, 5, group.matrix_size, group.matrix_size)
    assert model(poses).poses.shape == poses.shape


def test_hidden_states_of_padding_may_hold_anything() -> None:
    layer, g, h = la.LieAttention(la.SE3, 32, 4), poses_of(la.SE3, 1, 5), torch.randn(1, 5, 32)
    mask = torch.tensor([[True] * 3 + [False] * 2])
    expected = layer(h, g, mask=mask)[mask]
    h[~mask] = torch.nan
    torch.testing.assert_close(layer(h, g, mask=mask)[mask], expected)


def test_a_set_may_attend_to_itself_in_other_poses() -> None:
    layer, g, h = la.LieAttention(la.SE3, 32, 4), poses_of(la.SE3, 1, 5), torch.randn(1, 5, 32)
    other = poses_of(la.SE3, 1, 5, seed=1)
    same = layer(h, g, context=h, context_poses=other)
    torch.testing.assert_close(same, layer(h, g, context=h.clone(), context_poses=other))


def test_a_registered_score_reaches_configs_and_checkpoints(tmp_path: Path) -> None:
    class Manhattan(la.scores.Score):
        def forward(self, coords: Tensor) -> Tensor:
            return -coords.abs().sum(-1).unsqueeze(-3)

    la.scores.register("manhattan", Manhattan)
    try:
        model = model_of(la.SE3, score="manhattan")
        model.save_pretrained(tmp_path)
        again = la.LieTransformer.from_pretrained(tmp_path)
        poses = poses_of(la.SE3, 1, 5)
        assert difference(model(poses), again(poses)) == 0
    finally:
        del la.scores.SCORES["manhattan"]
    with pytest.raises(la.CheckpointError, match=r"unknown score 'manhattan'.*scores.register"):
        la.LieTransformer.from_pretrained(tmp_path)


def test_poses_of_two_dtypes_compose() -> None:
    a, b = la.SE3.random(), la.SE3.random(dtype=torch.float64)
    assert la.SE3.compose(a, b).dtype == la.SE3.relative(a, b).dtype == torch.float64
    with pytest.raises(ValueError, match="right poses must have shape"):
        la.SE3.compose(a, la.SE2.random())


def test_a_mask_of_lists_as_long_as_the_set_is_one_of_places() -> None:
    # Query 2 has nothing to attend to, and place 2 of every list is masked: token 2 is real.
    poses, lists = poses_of(la.SE3, 1, 5), torch.arange(5).expand(1, 5, 5)
    mask = torch.ones(1, 5, 5, dtype=torch.bool)
    mask[:, 2] = mask[..., 2] = False
    assert model_of(la.SE3)(poses, mask=mask, neighbours=lists).delta[0, 2].any()
    gap = la.CompletionModel(la.SE3)(poses, mask=mask, neighbours=lists).gap
    assert (gap > -1e9).all()
