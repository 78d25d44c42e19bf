"""Pruning: what is left out, that nothing changes where it is off, and what tolerances may be."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from pruning_cases import TILE, Scene

import lieattn as la
from lieattn import Group
from lieattn.ops.native import call as _native_call
from lieattn.ops.request import Operands
from native_cases import needs_kernel

# ---- what is left out --------------------------------------------------------------------------


def test_most_keys_of_a_large_volume_are_left_out(build: str) -> None:
    scene = Scene(Nq=4096, B=1)
    assert scene.share(1e-3) > 0.5
    assert scene.share(1e-6) > 0.4
    assert scene.share(0.0) == 0


def test_heads_are_pruned_one_by_one(build: str) -> None:
    """One of three looks at distances."""
    assert 0.1 < Scene(places="clusters", weights="not of distance").share(1e-3) < 1 / 3


def test_padding_is_left_out(build: str) -> None:
    narrow = Scene(places="heap", weights="apart", mask="ragged", B=1, Nq=9 * TILE, turns=0)
    assert narrow.share(1e-9) >= 1 / 3


def test_the_order_of_a_set_does_not_matter(build: str) -> None:
    (q, _, values, weights), _ = Scene("SE3", "clusters", Nq=600, B=1).inputs()
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    options = {"weights": weights, "exclude_self": True, "backend": "native", "prune": 1e-3}
    run = partial(la.lie_attention, "SE3", **options)
    for x, y in zip(
        run(q, q, values),
        run(q[:, order], q[:, order], values[:, :, order]),
        strict=True,
    ):
        torch.testing.assert_close(x[:, :, order], y, rtol=1e-5, atol=1e-5)


def test_threads_change_nothing(build: str) -> None:
    scene = Scene(Nq=700)
    torch.set_num_threads(2)
    try:
        two = scene.sums(1e-3)
    finally:
        torch.set_num_threads(1)
    assert all(map(torch.equal, two, scene.sums(1e-3)))


# ---- off ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "tiled", "native", "auto"])
def test_without_a_tolerance_nothing_changes(build: str, backend: str) -> None:
    scene = Scene("SE2", Nq=200)
    (q, k, values, weights), _ = scene.inputs()
    plain = la.lie_attention("SE2", q, k, values, weights, None, True, backend=backend)
    assert all(map(torch.equal, plain, scene.sums(0.0, backend)))


@pytest.mark.parametrize("backend", ["reference", "tiled"])
def test_backends_that_do_not_prune_are_exact(backend: str) -> None:
    scene = Scene("SE2", Nq=200)
    assert all(map(torch.equal, scene.sums(0.5, backend), scene.sums(0.0, backend)))


@pytest.mark.parametrize("group", [la.SO2, la.SO3, la.Aff2], ids=str)
def test_other_groups_are_exact(build: str, group: Group) -> None:
    g, values = group.random(1, 300), torch.randn(1, 2, 300, 4)
    run = partial(la.lie_attention, group, g, g, values, torch.full((2, len(group.blocks)), 9.0))
    assert all(map(torch.equal, run(backend="native", prune=0.5), run(backend="native")))


def test_biases_and_weights_that_do_not_decay_are_exact(build: str) -> None:
    (q, k, values, weights), _ = Scene().inputs()
    run = partial(la.lie_attention, "SE3", q, k, values, backend="native")
    bias = torch.randn(333, 333)
    flat = torch.tensor([[0.0, 1.0], [-1e-3, 1.0]])
    for other, options in ((weights, {"bias": bias}), (flat, {})):
        pruned = run(other, prune=0.5, **options)
        assert all(map(torch.equal, pruned, run(other, **options)))


def test_poses_that_are_not_finite_go_to_the_reference(build: str) -> None:
    (q, _, values, weights), _ = Scene("SE2", Nq=100, B=1).inputs()
    q[:, 3, 0, 2] = torch.nan
    found = la.lie_attention("SE2", q, q, values, weights, backend="native", prune=0.1)
    expected = la.lie_attention("SE2", q, q, values, weights, backend="tiled")
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, equal_nan=True)


# ---- around it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("prune", [-1e-3, 1.0, 2, math.nan, math.inf])
def test_tolerances_that_are_no_share(prune: float) -> None:
    g, values = la.SE2.random(1, 3), torch.zeros(1, 1, 3, 2)
    with pytest.raises(ValueError, match=r"share of a query's weights.*from 0.*below 1.*got"):
        la.lie_attention("SE2", g, g, values, torch.ones(1, 2), prune=prune)
    with pytest.raises(ValueError, match=r"from 0.*below 1"):
        la.LieAttention("SE2", 8, 2, prune=prune)
    with pytest.raises(ValueError, match=r"prune must be a number from 0 to below 1"):
        la.LieTransformerConfig(prune=prune)


@pytest.mark.parametrize("prune", [None, True, "1e-3", torch.tensor(0.1)])
def test_tolerances_that_are_no_number(prune: object) -> None:
    g, values = la.SE2.random(1, 3), torch.zeros(1, 1, 3, 2)
    with pytest.raises(TypeError, match="prune must be a number, got"):
        la.lie_attention("SE2", g, g, values, torch.ones(1, 2), prune=prune)


@needs_kernel
def test_layers_and_models_hand_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    call = _native_call.Call.__init__

    def spy(self: _native_call.Call, x: Operands) -> None:
        asked.append(x.prune)
        call(self, x)

    monkeypatch.setattr(_native_call.Call, "__init__", spy)
    g = la.SE3.random(1, 80)
    la.LieAttention("SE3", 8, 2, prune=1e-3)(torch.zeros(1, 80, 8), g)
    la.LieTransformer("SE3", la.LieTransformerConfig.paper(layers=1, prune=1e-4))(g)
    assert asked == [1e-3, 1e-4]


@needs_kernel
def test_torch_accepts_the_ops() -> None:
    inputs, mask = replace(Scene("SE2", mask="arbitrary"), Nq=70, B=1).inputs()
    arguments = ("SE2", *(x.requires_grad_() for x in inputs), mask, None, True, 0.0, 0.1)
    torch.library.opcheck(torch.ops.lieattn.native_forward.default, arguments)


@needs_kernel
def test_it_compiles_whole() -> None:
    (q, k, values, weights), _ = Scene("SE2", Nq=200).inputs()
    run = partial(la.lie_attention, "SE2", exclude_self=True, backend="native", prune=1e-2)
    expected = run(q, k, values, weights)
    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for x, y in zip(compiled(q, k, values, weights), expected, strict=True):
        torch.testing.assert_close(x, y)
