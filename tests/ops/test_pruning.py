"""Pruning: what is left out stays within its bound, and nothing changes where it is off."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group
from lieattn.ops.native import call as _native_call
from lieattn.ops.native import library as _native_library
from lieattn.ops.request import Operands

LIBRARIES = {library.build: library for library in _native_library.available()}
needs_kernel = pytest.mark.skipif(not LIBRARIES, reason="the kernel was not built")
TILE = 64  # keys that are left out together


@pytest.fixture(params=list(LIBRARIES) or [pytest.param("none", marks=needs_kernel)])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each build of the kernel in its turn."""
    monkeypatch.setattr(_native_call, "LIBRARY", LIBRARIES[request.param])
    monkeypatch.setattr(_native_call, "MISSING", None)
    return request.param


# ---- scenes ------------------------------------------------------------------------------------

Random = Callable[..., Tensor]


def volume(random: Random, B: int, N: int, n: int) -> Tensor:
    return 6 * random(B, N, n)


def clusters(random: Random, B: int, N: int, n: int) -> Tensor:
    centres = 20 * random(B, 7, n)
    return centres[:, (7 * random(N)).long()] + 0.3 * random(B, N, n)


def outlier(random: Random, B: int, N: int, n: int) -> Tensor:
    """Nearly all keys in a far cluster, a few near by, and one at the end of the world."""
    at = 0.5 * random(B, N, n)
    at[:, N // 8 :] += 3
    at[:, -1] = 1e6
    return at


def line(random: Random, B: int, N: int, n: int) -> Tensor:
    """One after the other, as on a road: in order, unlike the others."""
    return 0.05 * torch.arange(N)[:, None] * torch.ones(n) + 0.1 * random(B, N, n)


def heap(random: Random, B: int, N: int, n: int) -> Tensor:
    """Two places, each taken many times."""
    return 2.5 * (random(B, N, 1) < 0.1) * torch.ones(n)


PLACES = {f.__name__: f for f in (volume, clusters, outlier, line, heap)}


def ragged(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return (torch.arange(Nk) < torch.tensor([Nk - Nk // 3, Nk])[:B, None])[:, None, None]


def causal(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return torch.ones(Nq, Nk, dtype=torch.bool).tril()


def arbitrary(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return random(B, H, Nq, Nk) < 0.3


def strided(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return (random(1, 1, Nk, Nq) < 0.3).mT


def of_queries(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return random(B, 1, Nq, 1) < 0.95


MASKS = {f.__name__: f for f in (ragged, causal, arbitrary, strided, of_queries)}

# lambda / tau of translations and rotations, a row a head.
WEIGHTS = {
    "alike": [[10.0, 0.5], [10.0, 0.5]],
    "apart": [[100.0, 1.0], [10.0, 0.0], [0.1, 2.0]],
    "negative rotations": [[30.0, -0.3], [30.0, -1.0]],
    "not of distance": [[20.0, 0.5], [0.0, 1.0], [-1e-3, 1.0]],
    "sharp": [[3e4, 1.0], [1e6, 100.0]],
}


@dataclass(frozen=True)
class Scene:
    """A request on the native backend."""

    group: str = "SE3"
    places: str = "volume"
    weights: str = "alike"
    mask: str = ""
    B: int = 2
    Nq: int = 333
    Nk: int = 0  # the same set as the queries
    width: int = 5
    scale: float = 1.0  # of translations
    turns: float = 1.0  # of rotations, 0 for none
    exclude_self: bool = True
    margin: float = 0.0
    seed: int = 0

    def inputs(self) -> tuple[list[Tensor], Tensor | None]:
        """Poses of queries and keys, values, weights; mask."""
        generator = torch.Generator().manual_seed(self.seed)
        random = partial(torch.rand, generator=generator, dtype=torch.float64)
        weights = torch.tensor(WEIGHTS[self.weights], dtype=torch.float64)
        weights[:, 0] /= self.scale**2
        H, Nk = len(weights), self.Nk or self.Nq
        q = self.poses(self.Nq, generator, random)
        k = self.poses(Nk, generator, random) if self.Nk else q
        values = random(self.B, H, Nk, self.width) - 0.5
        values[..., : Nk // 2, :] += 1  # what is left out must be able to matter
        mask = MASKS[self.mask](random, self.B, H, self.Nq, Nk) if self.mask else None
        return [x.float() for x in (q, k, values, weights)], mask

    def poses(self, N: int, generator: torch.Generator, random: Random) -> Tensor:
        group = la.get_group(self.group)
        g = group.random(self.B, N, generator=generator, dtype=torch.float64)
        if self.turns == 0:
            g[..., : group.n, : group.n] = torch.eye(group.n)
        g[..., : group.n, group.n] = self.scale * PLACES[self.places](random, self.B, N, group.n)
        return g

    def sums(
        self,
        prune: float,
        backend: str = "native",
        dtype: torch.dtype = torch.float32,
        leaves: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Both results, of the inputs or of others."""
        inputs, mask = self.inputs()
        return la.lie_attention(
            self.group,
            *(leaves or [x.to(dtype) for x in inputs]),
            mask,
            self.exclude_self and not self.Nk,
            backend=backend,
            margin=self.margin,
            prune=prune,
        )

    def gradients(
        self, prune: float, backend: str = "native", dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """Of all inputs."""
        leaves = [x.to(dtype).requires_grad_() for x in self.inputs()[0]]
        sums = self.sums(prune, backend, leaves=leaves)
        generator = torch.Generator().manual_seed(self.seed + 1)
        cotangents = [torch.randn(x.shape, generator=generator).to(dtype) for x in sums]
        return torch.autograd.grad(sums, leaves, cotangents)

    def share(self, prune: float) -> float:
        """Of pairs and heads, those left out."""
        inputs, mask = self.inputs()
        exclude_self = self.exclude_self and not self.Nk
        mask = None if mask is None else mask[(None,) * (4 - mask.dim())]
        operands = Operands(self.group, *inputs, mask, None, exclude_self, self.margin, prune)
        call = _native_call.Call(operands)
        B, H, Nq, Nk = call.pairs
        D = la.get_group(self.group).dim
        results = [torch.empty(B, H, Nq, width) for width in (self.width, D, 3)]
        assert call.run(call.library.forward, *(x.data_ptr() for x in results))
        return call.problem.pruned / (B * H * Nq * Nk)


@cache
def exact(scene: Scene) -> tuple[Tensor, Tensor]:
    return scene.sums(0.0, "tiled", torch.float64)


@cache
def exact_gradients(scene: Scene) -> tuple[Tensor, ...]:
    return scene.gradients(0.0, "tiled", torch.float64)


def excess(scene: Scene, prune: float) -> tuple[float, float, float]:
    """Largest errors as multiples of what the guide allows: values, translations, rotations.

    Rounding is taken off: four times the largest error of the same kernel without pruning.
    """
    (_, _, values, weights), _ = scene.inputs()
    found, plain, truth = scene.sums(prune), scene.sums(0.0), exact(scene)
    n = la.get_group(scene.group).n
    span = values.amax(-2, keepdim=True) - values.amin(-2, keepdim=True)
    prunes = (weights[:, :1] > 0).double()  # heads of which something may be left out
    length = weights[:, :1].clamp(min=1e-30) ** -0.5
    moves, turns = found[1].split([n, found[1].shape[-1] - n], dim=-1)
    allowed = [
        prunes[..., None] * span,
        prunes * (norms(moves) + length),
        prunes * (norms(turns) + math.sqrt(2) * math.pi),
    ]
    errors, roundings, sizes = (
        [(x[0] - y[0]).abs(), norms((x[1] - y[1])[..., :n]), norms((x[1] - y[1])[..., n:])]
        for x, y in ((found, truth), (plain, truth), (truth, [torch.zeros(1)] * 2))
    )
    beyond = [
        e - 4 * r.max() - 1e-6 * s.max() for e, r, s in zip(errors, roundings, sizes, strict=True)
    ]
    first, second, third = (
        float((e / (prune * unit + 1e-30)).max()) for e, unit in zip(beyond, allowed, strict=True)
    )
    return first, second, third


def norms(x: Tensor) -> Tensor:
    return x.norm(dim=-1)


def check(scene: Scene, prunes: tuple[float, ...] = (0.3, 1e-2, 1e-5)) -> None:
    for prune in prunes:
        errors = excess(scene, prune)
        assert max(errors) <= 1, f"{scene}, prune {prune}: {errors} of what is allowed"


# ---- the bound ---------------------------------------------------------------------------------


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", ["SE2", "SE3"])
def test_errors_are_within_the_bound(build: str, name: str, places: str) -> None:
    check(Scene(name, places))
    check(Scene(name, places, turns=0, exclude_self=False, seed=1))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ["SE2", "SE3"])
def test_heads_of_different_weights(build: str, name: str, weights: str) -> None:
    check(Scene(name, weights=weights))
    check(Scene(name, "heap", weights=weights, seed=1))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("places", ["volume", "outlier"])
def test_masks(build: str, places: str, mask: str) -> None:
    check(Scene("SE2", places, mask=mask))
    check(Scene("SE3", places, mask=mask, Nk=200, turns=0), (1e-2,))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_of_translations(build: str, scale: float) -> None:
    check(Scene(scale=scale, places="clusters"))
    check(Scene("SE2", scale=scale, weights="apart"))


@pytest.mark.parametrize(("Nq", "Nk"), [(65, 0), (1, 700), (700, 65), (129, 640), (511, 0)])
def test_sets_of_any_size(build: str, Nq: int, Nk: int) -> None:
    check(Scene("SE2", Nq=Nq, Nk=Nk, B=1))
    check(Scene("SE3", Nq=Nq, Nk=Nk, B=2, turns=0), (1e-2,))


def test_pairs_near_the_cut(build: str) -> None:
    check(Scene("SE2", margin=2.0))


@pytest.mark.parametrize("rotation", [0.0, -0.1, -2.0])
def test_the_bound_is_nearly_reached(build: str, rotation: float) -> None:
    """Far keys that weigh what they can and have other values, on either side of the tolerance.

    They are turned about the axis they lie on: u is then as short as the distance. Turns of 3.14
    make the most of a negative weight.
    """
    prune, near, far = 0.01, TILE, 4 * TILE
    values = torch.cat([torch.full((near,), -1.0), torch.ones(far)])[None, None, :, None]
    turned = la.SE3.exp(torch.tensor([0.0, 0, 0, 0, 0, 3.14 * math.sqrt(2)]))
    on_values, on_coords = [], []
    for square in torch.linspace(5, 9, 41) - 2 * 3.14**2 * rotation:
        g = torch.eye(4).repeat(1, near + far, 1, 1)
        g[:, near:] = turned
        g[:, near:, 2, 3] = square.sqrt()
        weights = torch.tensor([[1.0, rotation]])
        run = partial(la.lie_attention, "SE3", g[:, :near], g, values, weights, None, False)
        out, coords = run(backend="native", prune=prune)
        exact_out, exact_coords = run(backend="reference")
        on_values.append(float((out - exact_out).abs().max() / (2 * prune)))
        moved = (coords - exact_coords)[..., :3].norm(dim=-1)
        on_coords.append(float((moved / (prune * (coords[..., :3].norm(dim=-1) + 1))).max()))
    assert max(on_values) <= 1
    assert max(on_coords) <= 1
    assert max(on_coords) > 0.5
    assert max(on_values) > 0.1  # coordinates take the more of the tolerance the farther keys are


def test_rows_whose_near_keys_are_masked_see_far_ones(build: str) -> None:
    g = torch.eye(4).repeat(1, 4 * TILE, 1, 1)
    g[:, 2 * TILE :, 0, 3] = 10
    values = (torch.arange(4 * TILE) >= 2 * TILE).float()[None, None, :, None]
    mask = torch.ones(4 * TILE, 4 * TILE, dtype=torch.bool)
    mask[5, : 2 * TILE] = False
    mask[7] = False
    out, coords = la.lie_attention(
        "SE3", g, g, values, torch.ones(1, 2), mask, backend="native", prune=0.5
    )
    assert out[0, 0, 5] == 1
    assert coords[0, 0, 5, 0] == 10
    assert out[0, 0, 7] == 0
    assert out[0, 0, 6] == 0


# ---- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SE2", "SE3"])
@pytest.mark.parametrize("mask", ["", "ragged", "arbitrary"])
def test_gradients_are_close(build: str, name: str, mask: str) -> None:
    """By their size, within 30 times the share that was left out: logits there are below -log."""
    scene = Scene(name, mask=mask, weights="apart")
    assert scene.share(1e-3) > 0.05
    for prune in (1e-2, 1e-4):
        found, plain = scene.gradients(prune), scene.gradients(0.0)
        for x, y, truth in zip(found, plain, exact_gradients(scene), strict=True):
            rounding = (y.double() - truth).norm()
            assert (x.double() - truth).norm() <= 30 * prune * truth.norm() + 4 * rounding


def test_gradients_are_those_of_the_keys_that_were_kept(build: str) -> None:
    """Two clusters that see nothing of each other, told to each other by a mask, or not at all."""
    generator = torch.Generator().manual_seed(0)
    g = la.SE3.random(1, 4 * TILE, generator=generator)
    g[..., :3, 3] *= 0.2
    second = torch.arange(4 * TILE) % 2 == 1
    g[:, second, 0, 3] += 5
    values = torch.randn(1, 2, 4 * TILE, 8, generator=generator)

    def run(prune: float, mask: Tensor | None) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in (g, values, torch.full((2, 2), 0.3))]
        poses, v, weights = leaves
        sums = la.lie_attention(
            "SE3", poses, poses, v, weights, mask, backend="native", prune=prune
        )
        cotangents = [torch.linspace(-1, 1, x.numel()).view_as(x) for x in sums]
        return [*sums, *torch.autograd.grad(sums, leaves, cotangents)]

    apart = run(0.0, second[:, None] == second)
    together = run(0.0, None)
    for x, y, z in zip(run(0.5, None), apart, together, strict=True):
        assert (x - y).norm() <= 1e-5 * y.norm()
        assert (z - y).norm() > 1e-4 * y.norm()  # else this shows nothing


def test_both_passes_leave_out_the_same(build: str) -> None:
    """Weights sum to one in the backward pass too, wherever among equally far tiles there is room.

    For outputs of gradient one, those of the values are the sums of their weights.
    """
    g = torch.eye(3).repeat(1, 8 * TILE, 1, 1)
    for distance in torch.linspace(2, 3, 101):
        g[:, TILE:, 0, 2] = distance
        values = torch.zeros(1, 1, 8 * TILE, 1, requires_grad=True)
        out, _ = la.lie_attention(
            "SE2", g, g, values, torch.ones(1, 2), backend="native", prune=0.01
        )
        (weights,) = torch.autograd.grad(out.sum(), values)
        torch.testing.assert_close(weights.sum(), torch.tensor(8.0 * TILE))


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
    with pytest.raises(ValueError, match=r"prune must be in \[0, 1\)"):
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
    la.LieTransformer("SE3", la.LieTransformerConfig(layers=1, prune=1e-4))(g)
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
