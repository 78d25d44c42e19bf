"""Large sets: relations computed by each layer, by blocks, change nothing but the memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group, LieTransformerConfig
from lieattn.ops import policy, tiled
from memory import LargestTensor

B, N = 2, 8
OPTIONS: dict[str, dict[str, object]] = {
    "plain": {},
    "normalise": {"normalise": True},
    "updates": {"pose_updates": True, "normalise": True, "detach_rotations": True},
    "content": {"content": True},
}
MORE: dict[str, dict[str, object]] = {
    "mlp": {"score": "mlp"},
    "full": {"score": "full", "directed": True},
    "isotropic": {"score": "isotropic", "positive": "log"},
    "polar": {"chart": "polar", "output": "global", "normalise": True},
    "self": {"exclude_self": False, "content": True, "normalise": True},
    "margin": {"chart_margin": 0.5},
    "features": {"features": 3},
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 3 * B * N)


@contextmanager
def relations_deferred() -> Iterator[None]:
    """Whatever the size of the set, relations are not kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "KEPT_BYTES", -1)
        yield


def model_of(group: Group, **options: object) -> la.LieTransformer:
    torch.manual_seed(0)
    return la.LieTransformer(group, LieTransformerConfig(layers=2, **options)).eval().double()


def poses_of(group: Group, *batch: int, spread: float = 0.4) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = spread * torch.randn(*batch, group.dim, generator=generator, dtype=torch.float64)
    return group.compose(group.random(generator=generator, dtype=torch.float64), group.exp(x))


def check(net: la.LieTransformer, poses: Tensor, **options: Tensor) -> None:
    """Outputs and gradients are the same whether relations are kept or not."""
    poses = poses.clone().requires_grad_()
    leaves = [poses, *net.parameters(), *(x for x in options.values() if x.requires_grad)]
    kept = outputs(net, poses, leaves, **options)
    with relations_deferred():
        deferred = outputs(net, poses, leaves, **options)
    for x, y in zip(deferred, kept, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-10)


def outputs(
    net: la.LieTransformer, poses: Tensor, leaves: list[Tensor], **options: Tensor
) -> list[Tensor]:
    out = net(poses, **options)
    loss = out.hidden.square().sum() + out.delta.square().sum() + out.poses.sin().sum()
    gradients = torch.autograd.grad(loss, leaves, materialize_grads=True)
    return [*out, *gradients]


# ---- the same numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
def test_deferring_changes_nothing_on_any_group(group: Group, option: str) -> None:
    mask = torch.arange(N) < torch.tensor([[N], [N - 3]])
    check(model_of(group, **OPTIONS[option]), poses_of(group, B, N), mask=mask)


@pytest.mark.parametrize("option", MORE)
def test_deferring_changes_nothing_whatever_the_options(option: str) -> None:
    net, poses = model_of(la.Aff2, **MORE[option]), poses_of(la.Aff2, B, N, spread=0.8)
    features = torch.randn(B, N, 3) if net.config.features else None
    check(net, poses, **({} if features is None else {"features": features}))


@pytest.mark.parametrize("options", [{}, {"normalise": True}, {"content": True}], ids=str)
def test_deferring_changes_nothing_with_masks_biases_and_lists(options: dict[str, object]) -> None:
    net, poses = model_of(la.SE3, **options), poses_of(la.SE3, B, N)
    generator = torch.Generator().manual_seed(1)
    pairs = torch.rand(1, N, N, generator=generator) < 0.6
    bias = torch.randn(B, 4, N, N, generator=generator, dtype=torch.float64)
    lists = torch.randint(-1, N, (B, N, 3), generator=generator)
    tokens = torch.arange(N) < torch.tensor([[N], [N - 3]])
    check(net, poses, mask=pairs, bias=bias.requires_grad_())
    check(net, poses, mask=tokens, neighbours=lists)
    check(net, poses, mask=pairs[..., :3], neighbours=lists)


def test_deferring_changes_nothing_off_the_chart() -> None:
    poses = poses_of(la.Aff2, B, N)
    poses[:, ::2] = poses[:, ::2] @ torch.diag(torch.tensor([1.0, -1.0, 1.0])).double()
    for options in ({}, {"normalise": True}):
        check(model_of(la.Aff2, **options), poses)


@pytest.mark.parametrize("poses_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("model_dtype", [torch.float32, torch.float64])
def test_deferred_geometry_keeps_the_dtype_of_the_poses(
    poses_dtype: torch.dtype, model_dtype: torch.dtype
) -> None:
    net, seen = model_of(la.SE3, normalise=True, score="mlp").to(model_dtype), set()
    net.layers[1].attention.score.register_forward_pre_hook(lambda _, x: seen.add(x[0].dtype))
    poses = poses_of(la.SE3, B, N).to(poses_dtype)
    # Far from the origin only float64 can tell the poses apart.
    poses[..., :3, 3] += 1000.0
    expected = net(poses)
    with relations_deferred():
        out = net(poses)
    assert out.poses.dtype == poses_dtype
    assert out.hidden.dtype == model_dtype
    assert seen == {model_dtype}  # the score is the network's, whatever the geometry runs in
    torch.testing.assert_close(out.delta, expected.delta, rtol=1e-4, atol=1e-5)


def test_padding_may_hold_anything_where_relations_are_deferred() -> None:
    net, poses = model_of(la.SE3, normalise=True, content=True), poses_of(la.SE3, B, N)
    mask = torch.arange(N).expand(B, N) < N - 2
    spoilt = torch.where(mask[..., None, None], poses, torch.nan)
    expected = net(poses, mask=mask)
    with relations_deferred():
        out = net(spoilt, mask=mask)
    torch.testing.assert_close(out.hidden, expected.hidden)
    torch.testing.assert_close(out.poses[mask], expected.poses[mask])


def test_empty_sets_can_be_deferred(group: Group) -> None:
    for count in (0, 1):
        for option in OPTIONS.values():
            check(model_of(group, **option), poses_of(group, B, count))


def test_a_mask_that_does_not_fit_is_named_where_relations_are_deferred() -> None:
    net, poses = model_of(la.SE3), poses_of(la.SE3, B, N)
    for arguments, message in (
        ({"mask": torch.ones(B, N, 3, dtype=torch.bool)}, "mask of pairs must have shape"),
        ({"neighbours": torch.full((B, N, 3), N)}, "indices of keys"),
        ({"bias": torch.zeros(B, 4, N, 2)}, "bias must broadcast to"),
    ):
        with relations_deferred(), pytest.raises(ValueError, match=message):
            net(poses, **arguments)


# ---- when, and what it saves -------------------------------------------------------------------


@pytest.mark.parametrize("option", [{}, {"content": True, "normalise": True}], ids=str)
@pytest.mark.parametrize("fast", [False, True])
def test_relations_are_kept_where_no_backend_is_faster(
    fast: bool, option: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, poses, layers = model_of(la.SE3, **option), poses_of(la.SE3, B, N), []
    attend = la.LieAttention.forward

    def forward(self: la.LieAttention, h: Tensor, rel: object, **options: object) -> Tensor:
        layers.append(type(rel).__name__)
        return attend(self, h, rel, **options)

    monkeypatch.setattr(la.LieAttention, "forward", forward)
    monkeypatch.setattr(policy, "is_fast", lambda request: fast)
    size = B * N * N * 6 * 8  # pairs, coordinates, bytes of float64
    for kept, keeps in ((size, not fast), (size - 1, False)):
        monkeypatch.setattr(policy, "KEPT_BYTES", kept)
        layers.clear()
        net(poses)
        assert layers == 2 * ["Relations" if keeps else "DeferredRelations"]


def test_compiled_models_share_relations_whatever_the_size() -> None:
    torch._dynamo.reset()
    net, poses = model_of(la.SE2), poses_of(la.SE2, B, N)
    with relations_deferred():
        out = torch.compile(net, fullgraph=True, backend="aot_eager")(poses)
    torch.testing.assert_close(out.hidden, net(poses).hidden)


@pytest.mark.parametrize("option", [{}, {"content": True, "normalise": True}], ids=str)
def test_no_tensor_of_a_model_grows_with_the_square_of_the_tokens(
    option: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 256
    monkeypatch.setattr(tiled, "PAIRS", 8 * n)
    torch.manual_seed(0)
    net = la.LieTransformer(la.SE2, LieTransformerConfig(layers=1, dim=16, **option))
    poses, mask = la.SE2.random(1, n), torch.arange(n)[None] < n - 9
    with relations_deferred(), LargestTensor() as deferred:
        net(poses, mask=mask).hidden.sum().backward()
    monkeypatch.setattr(policy, "is_fast", lambda request: False)
    with LargestTensor() as kept:
        net(poses, mask=mask).hidden.sum().backward()
    assert deferred.elements < n * n < kept.elements
