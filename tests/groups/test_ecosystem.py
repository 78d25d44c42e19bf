"""torch.compile without graph breaks, vmap, autocast, meta and deterministic behaviour."""

import pytest
import torch
from torch import Tensor

import lieattn
from every_group import ALL_GROUPS
from lieattn import Group

CHARTS = [(name, "principal") for name in lieattn.available_groups()] + [
    ("Aff2", "polar"),
    ("Aff3", "polar"),
]


def poses(group: Group, *batch: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return group.random(*batch, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize(("name", "chart"), CHARTS)
def test_compiles_without_graph_breaks(name: str, chart: str) -> None:
    group = lieattn.get_group(name)
    torch.compiler.reset()

    def correct(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        rel = lieattn.relations(group, g, g, chart)
        return rel.coords, group.compose(g, group.exp(x, chart))

    g = poses(group, 5).requires_grad_()
    x = 0.1 * torch.randn(5, group.dim, generator=torch.Generator().manual_seed(1))
    # C++ where it builds in seconds; for the others, that nothing breaks the graph.
    backend = {
        ("SE3", "principal"): "inductor",
        ("Aff2", "principal"): "inductor",
        ("Aff3", "polar"): "eager",  # a minute and more in autograd's tracer
    }.get((name, chart), "aot_eager")
    compiled = torch.compile(correct, fullgraph=True, backend=backend)
    outputs = []
    for f in (correct, compiled):
        coords, moved = f(g, x)
        (gradient,) = torch.autograd.grad(coords.square().sum() + moved.sum(), g)
        outputs.append((coords.detach(), moved.detach(), gradient))
    for eager, fast in zip(*outputs, strict=True):
        torch.testing.assert_close(fast, eager, atol=2e-5, rtol=2e-4)


def test_compiles_where_nothing_requires_a_gradient() -> None:
    """Dynamo inlines an autograd.Function then, by another route than with gradients."""
    torch.compiler.reset()
    group = lieattn.Aff3
    g = poses(group, 5)
    compiled = torch.compile(group.log, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(g), group.log(g), atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize("name", ["SE3", "SE3 x SO2"])
def test_actions_jacobians_and_scans_compile_without_graph_breaks(name: str) -> None:
    group = ALL_GROUPS[name]
    torch.compiler.reset()
    g, x = poses(group, 5), torch.full((5, group.dim), 0.1)
    points = torch.ones(5, group.point_dim)

    def everything(g: Tensor, x: Tensor, points: Tensor) -> tuple[Tensor, ...]:
        track = group.cumulative(group.retract(g, x))
        inverse = group.right_jacobian_inverse(x)
        return track, inverse, group.to_local(g, group.act(track, points))

    compiled = torch.compile(everything, fullgraph=True, backend="eager")
    for fast, eager in zip(compiled(g, x, points), everything(g, x, points), strict=True):
        torch.testing.assert_close(fast, eager, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", list(ALL_GROUPS))
def test_vmap_agrees_with_batching(name: str) -> None:
    group = ALL_GROUPS[name]
    g = poses(group, 4, dtype=torch.float64)
    x = 0.2 * torch.randn(4, group.dim, generator=torch.Generator().manual_seed(1)).double()
    vmap = torch.func.vmap
    torch.testing.assert_close(vmap(group.exp)(x), group.exp(x))
    torch.testing.assert_close(vmap(group.log)(g), group.log(g), equal_nan=True)
    pairs = vmap(vmap(group.log_relative, (None, 0)), (0, None))(g, g)
    expected = lieattn.relations(group, g, g)
    torch.testing.assert_close(pairs.nan_to_num(), expected.coords, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("name", "chart"), CHARTS)
def test_autocast_does_not_touch_geometry(name: str, chart: str) -> None:
    """In bfloat16 the error would be 1e-2; the island keeps every operation in float32."""
    group = lieattn.get_group(name)
    g = poses(group, 6)
    x = 0.3 * torch.randn(6, group.dim, generator=torch.Generator().manual_seed(1))

    def everything() -> list[Tensor]:
        rel = lieattn.relations(group, g, g, chart)
        moved = group.compose(g, group.exp(x, chart))
        other = [group.inverse(g), group.relative(g, moved), group.hat(x), group.adjoint(g)]
        return [rel.coords, moved, *other, group.bracket(x, x.flip(0)), group.vee(group.hat(x))]

    plain = everything()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = everything()
    for a, b in zip(plain, cast, strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-4)


def test_same_seed_gives_the_same_bits(group: Group) -> None:
    first, second = (lieattn.relations(group, *[poses(group, 8)] * 2).coords for _ in range(2))
    assert torch.equal(first, second)


def test_default_dtype_is_respected(group: Group) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert group.identity().dtype == group.random(2).dtype == torch.float64
        assert group.basis().dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
