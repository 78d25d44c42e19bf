"""Bad input is answered with what was wrong, what was expected, and how to mend it."""

import pytest
import torch

import lieattn as la
from lieattn import LieTransformerConfig

B, N = 2, 5
POSES = la.SE3.random(B, N)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"poses": la.SE2.random(B, N)}, r"SE\(3\) poses must have shape \[..., 4, 4\]"),
        ({"poses": POSES[0, 0]}, r"must be a set .*poses\[None\]"),
        ({"poses": la.Aff3.random(B, N)}, r"is not in SE\(3\): its rotation part"),
        ({"poses": POSES.half()}, "must be float32 or float64"),
        ({"poses": torch.full_like(POSES, torch.nan)}, "holds NaN or infinity"),
        ({"mask": torch.ones(B, N)}, "mask must be boolean, True for a real token"),
        ({"mask": torch.ones(B, N + 1, dtype=torch.bool)}, r"mask must have shape \[2, 5\]"),
        ({"mask": torch.zeros(B, N, dtype=torch.bool)}, "False everywhere.*pass ~mask"),
        ({"mask": torch.ones(B, N, 3, dtype=torch.bool)}, "mask of pairs must have shape"),
        ({"features": torch.zeros(B, N, 3)}, r"no features; .*features=3"),
        ({"frozen": torch.zeros(B, N)}, "frozen must be boolean"),
        ({"neighbours": torch.zeros(B, N, 3)}, "int64"),
        ({"bias": torch.zeros(B, 4, N, 2)}, "bias must broadcast to"),
    ],
)
def test_a_model_names_what_does_not_fit(arguments: dict[str, object], message: str) -> None:
    model = la.LieTransformer(la.SE3)
    with pytest.raises(ValueError, match=message):
        model(**{"poses": POSES, **arguments})


@pytest.mark.parametrize("bad", [POSES.numpy(), POSES.tolist(), None])
def test_poses_must_be_a_tensor(bad: object) -> None:
    for model in (la.LieTransformer(la.SE3), la.VectorCompletionModel(la.SE3)):
        with pytest.raises(TypeError, match=r"poses must be a torch.Tensor, got .*as_tensor"):
            model(bad)


@pytest.mark.parametrize("name", ["mask", "features", "frozen", "bias", "neighbours"])
def test_what_goes_with_the_poses_must_be_a_tensor(name: str) -> None:
    model = la.LieTransformer(la.SE3, LieTransformerConfig(features=3 if name == "features" else 0))
    with pytest.raises(TypeError, match=f"{name} must be a torch.Tensor, got list"):
        model(POSES, **{name: [1, 2, 3]})


def test_poses_of_another_group_of_the_same_size_are_found() -> None:
    with pytest.raises(ValueError, match=r"not in SE\(2\)"):
        la.CompletionModel(la.SE2)(la.SO3.random(B, N))
    with pytest.raises(ValueError, match=r"not in SO\(3\)"):
        la.CompletionModel(la.SO3).complete(la.Aff2.random(B, N))


def test_the_check_of_values_can_be_switched_off() -> None:
    model = la.LieTransformer(la.SE3)
    model.check_inputs = False
    assert model(1.001 * POSES).poses.shape == POSES.shape


def test_features_must_be_there_and_fit() -> None:
    model = la.LieTransformer(la.SE3, LieTransformerConfig(features=3))
    with pytest.raises(ValueError, match="reads 3 features a token"):
        model(POSES)
    with pytest.raises(ValueError, match=r"features must have shape \[2, 5, 3\]"):
        model(POSES, features=torch.zeros(B, N, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"h": torch.zeros(B, N, 31)}, r"h must have shape \[..., N, 32\]"),
        ({"context": torch.zeros(B, N, 31)}, "context must have shape"),
        ({"poses": POSES[:, :3]}, "of the same tokens"),
        ({"mask": torch.ones(B, N)}, "mask must be boolean"),
        ({"mask": torch.ones(B, N + 1, dtype=torch.bool)}, "mask of tokens must have shape"),
        ({"mask": torch.ones(N, dtype=torch.bool)}, r"mask must be \[B, Nk\]"),
    ],
)
def test_a_layer_names_what_does_not_fit(arguments: dict[str, object], message: str) -> None:
    layer = la.LieAttention(la.SE3, 32, 4)
    with pytest.raises(ValueError, match=message):
        layer(**{"h": torch.zeros(B, N, 32), "poses": POSES, **arguments})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 33}, "multiple of heads"),
        ({"heads": 0}, "heads must be a whole number of at least 1, got 0"),
        ({"layers": 0}, "layers must be a whole number of at least 1, got 0"),
        ({"score": "dot"}, "unknown score 'dot'; known are norm"),
        ({"chart": "euler"}, "unknown chart 'euler'; known are principal, polar"),
        ({"output": "both"}, "known are local, global"),
        ({"positive": "relu"}, "known are softplus, log"),
        ({"dropout": 1.5}, "dropout must be a number from 0 to below 1, got 1.5"),
        ({"features": -1}, "features must be a whole number of at least 0, got -1"),
        ({"detach_rotations": True}, "set pose_updates=True"),
    ],
)
def test_a_config_names_what_does_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LieTransformerConfig(**options)


def test_a_config_wants_numbers_and_names() -> None:
    with pytest.raises(TypeError, match="dim must be a whole number of at least 1, got '32'"):
        LieTransformerConfig(dim="32")
    with pytest.raises(TypeError, match="directed must be true or false, got 1"):
        LieTransformerConfig(directed=1)


def test_a_group_without_a_polar_chart_says_so_at_once() -> None:
    E = torch.zeros(3, 3, 3)
    E[0, 0, 1] = E[1, 1, 2] = E[2, 0, 2] = 1
    heisenberg = la.matrix_group("Heisenberg", E)
    for options in ({"chart": "polar"}, {"output": "global"}):
        with pytest.raises(ValueError, match="known are principal for Heisenberg"):
            la.LieTransformer(heisenberg, LieTransformerConfig(**options))


def test_layers_refuse_a_width_that_heads_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim=30 and heads=4"):
        la.LieAttention(la.SE3, 30, 4)


def test_completion_needs_a_token_in_every_set() -> None:
    model = la.CompletionModel(la.SE3)
    mask = torch.tensor([[True] * N, [False] * N])
    with pytest.raises(ValueError, match="set 1 has no real token"):
        model.complete(POSES, mask=mask)
    with pytest.raises(ValueError, match="nothing to complete"):
        model.complete(POSES[:, :0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"mask": torch.ones(3, N, N, dtype=torch.bool)},
        {"neighbours": torch.zeros(3, N, 2, dtype=torch.int64)},
        {"bias": torch.zeros(3, 4, N, N)},
    ],
)
def test_what_comes_with_the_poses_has_their_batch(arguments: dict[str, torch.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"must have the batch \[2\] of the poses"):
        la.LieTransformer(la.SE3)(POSES, **arguments)


def test_a_mask_in_the_place_of_features_is_recognised() -> None:
    with pytest.raises(ValueError, match=r"was the mask meant\? Pass mask="):
        la.LieTransformer(la.SE3)(POSES, features=torch.ones(B, N, dtype=torch.bool))


@pytest.mark.parametrize("kind", [la.LieTransformer, la.CompletionModel, la.VectorCompletionModel])
def test_arguments_after_the_poses_are_passed_by_name(kind: type) -> None:
    with pytest.raises(TypeError, match=r"after poses by name: \w+\(poses, mask=\.\.\., features="):
        kind(la.SE3)(POSES, torch.ones(B, N, dtype=torch.bool))


@pytest.mark.parametrize("name", ["forward", "fill", "measure"])
def test_poses_to_be_found_are_missing_not_hidden(name: str) -> None:
    call, missing = getattr(la.InfillModel(la.SE3), name), torch.ones(B, N, dtype=torch.bool)
    with pytest.raises(TypeError, match=r"after poses by name: InfillModel.*missing=\.\.\., mask="):
        call(POSES, missing)
    with pytest.raises(TypeError, match=r"hidden= is now missing=: InfillModel"):
        call(POSES, hidden=missing)


def test_configs_and_groups_of_the_wrong_kind() -> None:
    with pytest.raises(TypeError, match=r"got dict.*from_dict"):
        la.LieTransformer(la.SE3, {"dim": 32})
    with pytest.raises(ValueError, match="unknown group 'SE4'; known are SO2"):
        la.CompletionModel("SE4")
    with pytest.raises(ValueError, match="reads 3 features a token"):
        la.VectorCompletionModel(la.SE3, LieTransformerConfig(features=3))(POSES)


def test_context_and_its_poses_go_together() -> None:
    layer, h = la.LieAttention(la.SE3, 32, 4), torch.zeros(B, N, 32)
    with pytest.raises(ValueError, match="go together"):
        layer(h, POSES, context=torch.zeros(B, N, 32))
    with pytest.raises(ValueError, match="go together"):
        layer(h, POSES, context_poses=POSES)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (la.scores.NormScore(la.SE3, 1), "the score has heads 1, the layer 4"),
        (la.scores.NormScore(la.SE2, 4), r"the score has group SE\(2\), the layer SE\(3\)"),
        (la.scores.NormScore(la.SE3, 4, "polar"), "the score has chart polar"),
    ],
)
def test_a_score_of_another_layer(score: la.scores.Score, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        la.LieAttention(la.SE3, 32, 4, score)


def test_a_score_that_is_none() -> None:
    with pytest.raises(TypeError, match="a name or a Score module"):
        la.LieAttention(la.SE3, 32, 4, la.scores.NormScore)
    with pytest.raises(ValueError, match="DirectedScore"):
        la.LieAttention(la.SE3, 32, 4, la.scores.NormScore(la.SE3, 4), directed=True)


def test_an_operator_wants_floating_point_values_and_real_weights() -> None:
    values = torch.zeros(B, 1, N, 2)
    with pytest.raises(ValueError, match=r"floating-point numbers, got torch.int64"):
        la.lie_attention(la.SE3, POSES, POSES, values.long(), torch.ones(1, 2))
    with pytest.raises(TypeError, match=r"weights must be a torch.Tensor, got list"):
        la.lie_attention(la.SE3, POSES, POSES, values, [[1.0, 1.0]])
    with pytest.raises(ValueError, match="the same batch"):
        la.lie_attention(la.SE3, POSES, POSES[:1].expand(3, -1, -1, -1), values, torch.ones(1, 2))


def test_a_nan_in_a_bias_shows() -> None:
    bias = torch.zeros(B, 1, N, N)
    bias[0, 0, 0, 1] = torch.nan
    values, weights = torch.ones(B, 1, N, 2), torch.ones(1, 2)
    assert la.lie_attention(la.SE3, POSES, POSES, values, weights, bias=bias)[0].isnan().any()


def test_a_score_that_forgets_the_heads_is_named() -> None:
    # As many sets as heads, so that the wrong shape would fit and mix the sets.
    poses, values = la.SE3.random(4, N), torch.randn(4, 4, N, 8)
    with pytest.raises(ValueError, match=r"the score returned \[4, 5, 5\].*unsqueeze\(-3\)"):
        la.lie_attention(la.SE3, poses, poses, values, lambda w: -w.square().sum(-1))


def test_layers_name_masks_contexts_and_relations_that_do_not_fit() -> None:
    layer, h = la.LieAttention(la.SE3, 32, 4), torch.zeros(B, N, 32)
    with pytest.raises(ValueError, match=r"for all sets alike use mask\[None\]"):
        layer(h, POSES, mask=torch.ones(N, N, dtype=torch.bool))
    with pytest.raises(ValueError, match="of the same tokens"):
        layer(h, POSES, context=h[:, :4], context_poses=POSES)
    with pytest.raises(ValueError, match=r"relations must be of SE\(3\).*got 3"):
        layer(h, la.relations(la.SE2, la.SE2.random(B, N), la.SE2.random(B, N)))


def test_padding_without_a_mask_is_recognised() -> None:
    for filler in (0.0, torch.nan):
        poses = POSES.clone()
        poses[1, 3:] = filler
        with pytest.raises(ValueError, match=r"If it is padding, pass mask=..., True for real"):
            la.LieTransformer(la.SE3)(poses)
        with pytest.raises(ValueError, match=r"True marks real ones. Is it inverted\?"):
            la.LieTransformer(la.SE3)(poses, mask=torch.arange(N).expand(B, N) >= 3)


def test_a_mask_of_lengths_is_told_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"torch.arange\(N\) < lengths"):
        la.LieTransformer(la.SE3)(POSES, mask=torch.tensor([5, 3]))


@pytest.mark.parametrize("head", [la.GapHead(8), la.InvariantReadout(8, 3)])
def test_heads_name_masks_that_do_not_fit(head: torch.nn.Module) -> None:
    h = torch.zeros(B, N, 8)
    with pytest.raises(ValueError, match=r"mask must be boolean of shape \[2, 5\]"):
        head(h, mask=torch.ones(B, N))
    with pytest.raises(TypeError, match=r"mask must be a torch.Tensor, got list"):
        head(h, mask=[True])


def test_completion_loss_names_its_arguments() -> None:
    model = la.CompletionModel(la.SE3)
    out, beside = model(POSES), torch.ones(B, N, dtype=torch.bool)
    loss = la.losses.completion_loss
    with pytest.raises(ValueError, match="beside must be boolean"):
        loss(la.SE3, out, POSES[:, 0], beside.float())
    with pytest.raises(ValueError, match="one pose a set, got"):
        loss(la.SE3, out, POSES[:, :1], beside)
    with pytest.raises(ValueError, match="nothing to learn from"):
        loss(la.SE3, out, POSES[:, 0], ~beside)


@pytest.mark.parametrize("group", [la.Aff2, la.Aff3], ids=str)
def test_float64_poses_that_check_admits_are_taken(group: la.Group) -> None:
    """Of a condition that is beyond float32's."""
    poses = group.identity(1, 5, dtype=torch.float64).clone()
    poses[..., 0, 0] = 1e-7
    turns = la.SO2 if group.n == 2 else la.SO3
    poses[..., : group.n, : group.n] = poses[..., : group.n, : group.n] @ turns.random(
        1, 5, dtype=torch.float64
    )
    group.check(poses)
    out = la.LieTransformer(group)(poses)
    assert out.hidden.isfinite().all()
    assert out.poses.isfinite().all()
