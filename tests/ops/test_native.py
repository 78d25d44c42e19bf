"""The native backend: at most twice the reference's error, on every build this machine can run."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group
from lieattn.ops import Request, _native_call, _native_fallback, _native_library, dispatch, native

LIBRARIES = {library.build: library for library in _native_library.available()}
GROUPS = [la.get_group(name) for name in _native_call.CODES]
EPS = torch.finfo(torch.float32).eps
NAMES = ("out", "coords", "d_poses", "d_keys", "d_values", "d_weights", "d_bias")

needs_kernel = pytest.mark.skipif(not LIBRARIES, reason="the kernel was not built")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=list(LIBRARIES) or [pytest.param("none", marks=needs_kernel)])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each build of the kernel in its turn."""
    use(monkeypatch, LIBRARIES[request.param])
    return request.param


def use(monkeypatch: pytest.MonkeyPatch, library: _native_library.Library | None) -> None:
    monkeypatch.setattr(_native_call, "LIBRARY", library)
    monkeypatch.setattr(_native_call, "MISSING", None if library else "gone")


# ---- cases -------------------------------------------------------------------------------------


def ragged(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    """Sets of different sizes: their last keys are padding."""
    return (torch.arange(Nk) < torch.tensor([Nk, Nk - Nk // 3])[:B, None])[:, None, None]


def causal(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return torch.ones(Nq, Nk, dtype=torch.bool).tril()


def arbitrary(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(B, H, Nq, Nk, generator=generator) < 0.5


def strided(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(B, H, Nk, Nq).mT


def expanded(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(1, 1, Nq, Nk).expand(B, H, Nq, Nk)


def of_queries(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(B, 1, Nq, 1)


MASKS = {f.__name__: f for f in (ragged, causal, arbitrary, strided, expanded, of_queries)}


@dataclass(frozen=True)
class Case:
    """What is asked of the operator; all of it random but for the shapes."""

    group: str = "SE3"
    poses: str = "generic"
    B: int = 2
    H: int = 3
    Nq: int = 13
    Nk: int = 0  # the same set as the queries
    width: int = 5
    mask: str = ""
    bias: tuple[int, ...] | None = None
    bias_gradient: bool = True
    exclude_self: bool = True
    margin: float = 0.0
    weight: float = 1.0  # times those of translations and turns alike

    def inputs(self, seed: int) -> dict[str, Tensor]:
        """Leaves of the operator, in float32."""
        generator = torch.Generator().manual_seed(seed)
        random = partial(torch.randn, generator=generator, dtype=torch.float64)
        group, keys = la.get_group(self.group), self.Nk or self.Nq
        q = sample(group, self.poses, self.B, self.Nq, generator)
        k = sample(group, self.poses, self.B, keys, generator) if self.Nk else q
        scale = {"near": 1e6, "millimetres": 1e6, "kilometres": 1e-6}.get(self.poses, 1.0)
        weights = self.weight * (0.5 + torch.rand(self.H, len(group.blocks), generator=generator))
        moving = group.blocks[0].name == "translation"
        weights[:, : 1 if moving and self.poses != "near" else None] *= (
            scale if moving or self.poses == "near" else 1
        )
        found = {"q": q, "k": k, "values": random(self.B, self.H, keys, self.width)}
        found["weights"] = weights
        if self.bias is not None:
            found["bias"] = random(*self.bias)
        return {name: x.float() for name, x in found.items()}

    def run(self, backend: str, dtype: torch.dtype, seed: int) -> list[Tensor]:
        """Both results and the gradients of all inputs."""
        x = {name: t.to(dtype).requires_grad_() for name, t in self.inputs(seed).items()}
        if "bias" in x and not self.bias_gradient:
            x["bias"].requires_grad_(False)
        shape = self.B, self.H, self.Nq, self.Nk or self.Nq
        out = la.lie_attention(
            self.group,
            x["q"],
            x["k"],
            x["values"],
            x["weights"],
            MASKS[self.mask](*shape) if self.mask else None,
            self.exclude_self and not self.Nk,
            backend=backend,
            bias=x.get("bias"),
            margin=self.margin,
        )
        generator = torch.Generator().manual_seed(seed + 1000)
        random = partial(torch.randn, generator=generator, dtype=torch.float64)
        cotangents = [random(t.shape).to(dtype) for t in out]
        leaves = [t for t in x.values() if t.requires_grad]
        return [*(t.detach() for t in out), *torch.autograd.grad(out, leaves, cotangents)]


def sample(group: Group, kind: str, B: int, N: int, generator: torch.Generator) -> Tensor:
    """Poses as they are easy and hard."""
    poses = group.random(B, N, generator=generator, dtype=torch.float64)
    random = partial(torch.randn, generator=generator, dtype=torch.float64)
    if kind == "near":  # a thousandth apart, somewhere
        return group.compose(poses[:, :1], group.exp(1e-3 * random(B, N, group.dim)))
    if kind == "cut":  # every second one half a turn from the one before it, nearly
        x, at = 0.3 * random(B, N // 2, group.dim), 0
        for block in group.blocks:
            part = x[..., at : at + block.dim]
            if block.name == "rotation":
                rest = 10 ** (-1 - 2 * torch.rand(B, N // 2, 1, generator=generator))
                part *= math.sqrt(2) * (math.pi - rest) / part.norm(dim=-1, keepdim=True)
            at += block.dim
        poses[:, 1 : 2 * (N // 2) : 2] = group.compose(poses[:, 0 : 2 * (N // 2) : 2], group.exp(x))
        return poses
    scale = {"millimetres": 1e-3, "kilometres": 1e3}.get(kind, 1.0)
    if group.blocks[0].name == "translation":
        poses[..., : group.n, group.n] *= scale
    return poses


@cache
def reference(case: Case, dtype: torch.dtype, seed: int) -> list[Tensor]:
    # Blocks are the reference, in less memory.
    return case.run("tiled" if case.Nq > 500 else "reference", dtype, seed)


def squares(x: Tensor, truth: Tensor) -> float:
    return float((x.double() - truth).square().sum())


def on_threads(count: int, work: Callable[[], list[Tensor]]) -> list[Tensor]:
    torch.set_num_threads(count)
    try:
        return work()
    finally:
        torch.set_num_threads(1)


def check(case: Case, seeds: range = range(8), cancelling: bool = False, threads: int = 1) -> None:
    """Errors against float64, pooled over seeds, are at most twice those of the reference.

    `cancelling`: every query has one key. The reference's softmax of one number is exactly one, so
    that the two terms of its gradient cancel to nothing; here they leave a rounding of their size.
    """
    ours, theirs, size = ([0.0] * len(NAMES) for _ in range(3))
    for seed in seeds:
        truth = reference(case, torch.float64, seed)
        single = reference(case, torch.float32, seed)
        found = on_threads(threads, partial(case.run, "native", torch.float32, seed))
        for i, (x, y, z) in enumerate(zip(found, single, truth, strict=True)):
            assert x.dtype == torch.float32
            assert x.shape == z.shape
            ours[i] += squares(x, z)
            theirs[i] += squares(y, z)
            size[i] += squares(z, torch.zeros_like(z))
    for name, a, b, norm in zip(NAMES, ours, theirs, size, strict=True):
        # One rounding of the result: where there is little to sum, the reference may have none.
        floor = EPS * math.sqrt(norm)
        if cancelling:  # d_out . out, times 2 |weight| |w| < 10
            floor += 10 * EPS * math.sqrt(case.width * size[0])
        report = f"{name} of {case}: {math.sqrt(a):.2e}, reference {math.sqrt(b):.2e}"
        assert math.sqrt(a) <= 2 * math.sqrt(b) + floor + 1e-30, report


# ---- the same numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("poses", ["generic", "near", "cut", "millimetres", "kilometres"])
@pytest.mark.parametrize("name", _native_call.CODES)
def test_error_is_at_most_twice_the_references(build: str, name: str, poses: str) -> None:
    check(Case(name, poses, Nq=34, width=16), range(4))


@pytest.mark.parametrize("name", _native_call.CODES)
@pytest.mark.parametrize("size", [(1, 1, 5), (2, 3, 16), (7, 8, 48), (63, 1, 128), (65, 3, 5)])
def test_sets_heads_and_widths_of_any_size(
    build: str, name: str, size: tuple[int, int, int]
) -> None:
    N, H, width = size
    check(Case(name, Nq=N, H=H, width=width), range(3 if N > 60 else 8), cancelling=N == 2)


def test_a_thousand_poses(build: str) -> None:
    check(Case("SE3", B=1, H=1, Nq=1000, width=16, mask="causal"), range(1))


@pytest.mark.parametrize("keys", [1, 5, 20, 300])
def test_attention_from_one_set_to_another(build: str, keys: int) -> None:
    check(Case(Nk=keys), cancelling=keys == 1)
    check(Case(Nk=keys, mask="ragged", bias=(keys,)), cancelling=keys == 1)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["SE2", "SE3"])
def test_masks(build: str, name: str, mask: str) -> None:
    check(Case(name, mask=mask))
    check(Case(name, mask=mask, Nk=9))


BIASES = [(1,), (13,), (13, 1), (13, 13), (3, 1, 1), (3, 13, 13), (2, 1, 1, 13), (2, 3, 13, 13)]


@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_biases_of_any_shape(build: str, bias: tuple[int, ...]) -> None:
    check(Case(bias=bias))
    check(Case(bias=bias, bias_gradient=False, mask="arbitrary"))


@pytest.mark.parametrize("bias", [(1, 1, 1, 300), (80, 300), (2, 3, 80, 300), (80, 1)], ids=str)
def test_threads_add_up_gradients_of_a_bias(build: str, bias: tuple[int, ...]) -> None:
    """Enough pairs for a thread more: 2 sets, 3 heads, 80 x 300 pairs."""
    check(Case("SE2", bias=bias, Nq=80, Nk=300), range(2), threads=2)


@pytest.mark.parametrize(("sets", "copies"), [(1, 2), (2, 1)], ids=["shared", "own"])
def test_threads_that_would_meet_have_places_of_their_own(sets: int, copies: int) -> None:
    """A race may go well for years, so it is the places that are looked at."""
    inputs, bias = Case(Nq=9).inputs(0).values(), torch.zeros(sets, 3, 9, 9)
    torch.set_num_threads(2)
    try:
        call = _native_call.Call("SE3", *inputs, None, bias, True, 0.0)
    finally:
        torch.set_num_threads(1)
    assert call.bias_copies(bias).numel() == copies * bias.numel()


@pytest.mark.parametrize("name", _native_call.CODES)
@pytest.mark.parametrize("margin", [0.5, 2.0, math.pi, 4.0])
def test_pairs_near_the_cut_are_left_out(build: str, name: str, margin: float) -> None:
    check(Case(name, "cut", margin=margin, exclude_self=False))


def test_queries_may_attend_to_themselves(build: str) -> None:
    for group in GROUPS:
        check(Case(group.name, exclude_self=False))


@pytest.mark.parametrize("weight", [1e4, -0.1, 0.0])
@pytest.mark.parametrize("name", _native_call.CODES)
def test_weights_that_are_huge_negative_or_nothing(build: str, name: str, weight: float) -> None:
    affine = name.startswith("Aff")
    if weight > 1 and affine:
        weight = 1e2  # beyond, a sum over seeds is one near tie of two keys, on either side
    check(Case(name, weight=weight), range(24 if affine else 8))


# ---- rows and values at the edge ---------------------------------------------------------------


def attend(
    poses: Tensor, values: Tensor, backend: str = "native", group: Group = la.SE3, **options: object
) -> list[Tensor]:
    leaves = [poses.clone().requires_grad_(), values.clone().requires_grad_()]
    weights = torch.ones(values.shape[-3], len(group.blocks), requires_grad=True)
    out = la.lie_attention(group, leaves[0], *leaves, weights, backend=backend, **options)
    ones = [torch.ones_like(x) for x in out]
    return [*out, *torch.autograd.grad(out, [*leaves, weights], ones)]


def test_a_row_with_nothing_to_attend_to_is_zero_without_gradient(build: str) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    mask = torch.ones(2, 1, 7, 7, dtype=torch.bool)
    mask[0, :, 2] = False
    out, coords, *_ = attend(poses, values, mask=mask)
    assert not out[0, :, 2].any()
    assert not coords[0, :, 2].any()
    assert out[1, :, 2].all()
    for nothing in ({"mask": torch.zeros(7, dtype=torch.bool)}, {"bias": torch.tensor(-torch.inf)}):
        assert all(not x.any() for x in attend(poses, values, **nothing))
    assert all(not x.any() for x in attend(poses[:, :1], values[:, :, :1]))


def test_values_that_are_masked_do_not_leak(build: str) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    mask = torch.tensor([1, 1, 1, 0, 1, 1, 0], dtype=torch.bool)
    loud = torch.where(mask[:, None], values, 1e30)
    for shaped in (mask, mask.expand(7, 7).contiguous()):
        quiet, same = attend(poses, values, mask=shaped), attend(poses, loud, mask=shaped)
        assert all(map(torch.equal, quiet, same))


@pytest.mark.parametrize(
    "shape", [(2, 3, 0, 5), (0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0), (2, 3, 1, 5)], ids=str
)
def test_nothing_at_all(build: str, shape: tuple[int, ...]) -> None:
    B, _, N, _ = shape
    found = attend(la.SE3.random(B, N), torch.randn(shape))
    expected = attend(la.SE3.random(B, N), torch.randn(shape), "reference")
    assert [x.shape for x in found] == [x.shape for x in expected]
    assert all(x.isfinite().all() for x in found)


def test_queries_without_keys_are_zero(build: str) -> None:
    q, k = la.SE3.random(2, 4), la.SE3.random(2, 0)
    values, bias = torch.zeros(2, 3, 0, 5), torch.zeros(4, 0)
    out = la.lie_attention(
        la.SE3, q, k, values, torch.ones(3, 2), exclude_self=False, backend="native", bias=bias
    )
    assert [x.shape for x in out] == [(2, 3, 4, 5), (2, 3, 4, 6)]
    assert not any(x.any() for x in out)


@pytest.mark.parametrize(
    ("poses_batch", "values_batch"),
    [((), ()), ((), (2,)), ((2, 3), (2, 3)), ((1,), (4,)), ((3, 1), (2,)), ((2,), (2,))],
)
def test_batches_of_any_shape_broadcast(
    build: str, poses_batch: tuple[int, ...], values_batch: tuple[int, ...]
) -> None:
    poses, values = la.SE3.random(*poses_batch, 7), torch.randn(*values_batch, 3, 7, 5)
    batch = torch.broadcast_shapes(poses_batch, values_batch)
    for shape in ((7,), (*batch, 1, 1, 7), (*batch, 3, 7, 7)):
        mask = torch.rand(shape) < 0.7
        a, b = (attend(poses, values, backend, mask=mask) for backend in ("native", "reference"))
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(
                x, y, rtol=1e-4, atol=1e-4 * (1 + y.detach().abs().max().item())
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_of_half_precision_come_back_as_such(build: str, dtype: torch.dtype) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5, dtype=dtype)
    out, coords, _, d_values, _ = attend(poses, values)
    assert (out.dtype, coords.dtype, d_values.dtype) == (dtype, torch.float32, dtype)
    expected = attend(poses, values.float())
    assert torch.equal(out, expected[0].to(dtype))


def test_gradients_come_for_what_needs_them(build: str) -> None:
    inputs = Case(Nk=9, bias=(9,)).inputs(0)
    everything = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    whole = gradients_of(everything)
    for alone, expected in zip(inputs, whole, strict=True):
        leaves = {name: x.clone().requires_grad_(name == alone) for name, x in inputs.items()}
        assert torch.equal(gradients_of(leaves)[0], expected)


def gradients_of(x: dict[str, Tensor]) -> list[Tensor]:
    q, k, values, weights, bias = x.values()
    out = la.lie_attention(
        "SE3", q, k, values, weights, exclude_self=False, bias=bias, backend="native"
    )
    leaves = [t for t in x.values() if t.requires_grad]
    return list(torch.autograd.grad(out, leaves, [t.detach().cos() for t in out]))


@pytest.mark.parametrize("bias", [None, (1, 1, 1, 300), (300, 300)], ids=str)
def test_two_runs_are_equal_to_the_last_bit(build: str, bias: tuple[int, ...] | None) -> None:
    case = Case(B=2, H=2, Nq=300, width=16, bias=bias)
    for threads in (1, 2):
        work = partial(case.run, "native", torch.float32, 0)
        runs = [on_threads(threads, work) for _ in range(2)]
        assert all(map(torch.equal, *runs))


# ---- what is left to the reference -------------------------------------------------------------


def test_poses_that_are_not_for_the_kernel_get_the_references_answer(
    build: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_native_fallback, "_said", set())
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    not_a_number, sheared, far = poses.clone(), poses.clone(), poses.clone()
    not_a_number[0, 3, 1, 1] = torch.nan
    sheared[1, 2, 0, 0] += 0.1
    far[0, 1, 0, 3] = 1e19
    with caplog.at_level(logging.DEBUG, "lieattn"):
        for odd in (not_a_number, sheared, far):
            a, b = (attend(odd, values, backend) for backend in ("native", "reference"))
            for x, y in zip(a, b, strict=True):
                torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)
    assert caplog.text.count("native kernel passed over") == 1


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", _native_call.CODES)
def test_poses_that_are_not_finite_get_the_references_answer(
    build: str, name: str, bad: float
) -> None:
    group = la.get_group(name)
    poses, values = group.random(2, 7), torch.randn(2, 3, 7, 5)
    for column in (0, -1):
        odd = poses.clone()
        odd[1, 2, 0, column] = bad
        a, b = (attend(odd, values, backend, group) for backend in ("native", "reference"))
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_biases_that_are_not_for_the_kernel_get_the_references_answer(
    build: str, bad: float
) -> None:
    poses, values, bias = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5), torch.zeros(7, 7)
    bias[2, 3] = bad
    a, b = (attend(poses, values, backend, bias=bias) for backend in ("native", "reference"))
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


def test_second_derivatives_are_the_references(build: str) -> None:
    case = Case(Nq=5, bias=(5, 5))

    def second(backend: str) -> list[Tensor]:
        x = [t.clone().requires_grad_() for t in case.inputs(0).values()]
        q, k, values, weights, bias = x
        out = la.lie_attention("SE3", q, k, values, weights, backend=backend, bias=bias)
        loss = out[0].sin().sum() + out[1].cos().sum()
        first = torch.autograd.grad(loss, x, create_graph=True)
        return list(torch.autograd.grad(sum(t.square().sum() for t in first), x))

    for a, b in zip(second("native"), second("reference"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@needs_kernel
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_transforms_of_torch_func_are_left_to_others(compiled: bool) -> None:
    poses, weights = la.SE3.random(5), torch.ones(3, 2)
    values = torch.randn(4, 3, 5, 2)

    def out(values: Tensor, backend: str = "auto") -> Tensor:
        return la.lie_attention(la.SE3, poses, poses, values, weights, backend=backend)[0]

    mapped: Callable[[Tensor], Tensor] = torch.func.vmap(out)
    if compiled:
        torch._dynamo.reset()
        mapped = torch.compile(mapped, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(mapped(values), out(values, "reference"))
    if compiled:
        return
    tangent = torch.func.jvp(out, (values[0],), (values[1],))[1]
    torch.testing.assert_close(tangent, out(values[1], "reference"))
    with pytest.raises(ValueError, match=r"torch\.func"):
        torch.func.vmap(partial(out, backend="native"))(values)


# ---- life with torch ---------------------------------------------------------------------------


@needs_kernel
@pytest.mark.parametrize("options", [(), ((2, 1, 9, 9), (1, 1, 1, 9))], ids=["plain", "pairs"])
def test_torch_accepts_the_ops(options: tuple[tuple[int, ...], ...]) -> None:
    inputs = list(Case(Nq=9).inputs(0).values())
    leaves = [x.requires_grad_() for x in inputs]
    mask = torch.rand(options[0]) < 0.7 if options else None
    bias = torch.randn(options[1], requires_grad=True) if options else None
    arguments = ("SE3", *leaves, mask, bias, True, 0.1)
    torch.library.opcheck(torch.ops.lieattn.native_forward.default, arguments)
    results = [x.detach() for x in torch.ops.lieattn.native_forward(*arguments)]
    plain = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
    cotangents = [torch.randn_like(x) for x in results[:2]]
    needs = True, False, bias is not None
    everything = (*plain, *results, *cotangents, *needs)
    torch.library.opcheck(torch.ops.lieattn.native_backward.default, everything)


@needs_kernel
def test_it_compiles_whole() -> None:
    inputs = [x.requires_grad_() for x in Case(Nq=9, bias=(9, 9)).inputs(0).values()]

    def run(q: Tensor, k: Tensor, values: Tensor, weights: Tensor, bias: Tensor) -> list[Tensor]:
        out = la.lie_attention("SE3", q, k, values, weights, bias=bias, margin=0.1)
        return [2 * x for x in out]

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    a, b = compiled(*inputs), run(*inputs)
    ones = [torch.ones_like(x) for x in b]
    a += torch.autograd.grad(a, inputs, ones)
    b += torch.autograd.grad(b, inputs, ones)
    assert all(map(torch.equal, a, b))


@needs_kernel
@pytest.mark.parametrize("backend", ["auto", "native"])
def test_programs_are_exported_with_the_kernel_if_it_is_named(backend: str) -> None:
    class Layer(torch.nn.Module):
        def forward(self, poses: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            return la.lie_attention(la.SE3, poses, poses, values, torch.ones(3, 2), backend=backend)

    tokens = torch.export.Dim("tokens", min=2)
    example = la.SE3.random(2, 5), torch.randn(2, 3, 5, 4)
    program = torch.export.export(Layer(), example, dynamic_shapes=({1: tokens}, {2: tokens}))
    assert ("native_forward" in str(program.graph)) == (backend == "native")
    inputs = la.SE3.random(2, 8), torch.randn(2, 3, 8, 4)
    for x, y in zip(program.module()(*inputs), Layer()(*inputs), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


# ---- what is declined --------------------------------------------------------------------------


def request(**changes: object) -> Request:
    poses = la.SE3.random(1, 3)
    asked = Request(la.SE3, poses, poses, torch.zeros(1, 2, 3, 4), torch.ones(2, 2))
    return replace(asked, **changes)


@needs_kernel
def test_auto_takes_it() -> None:
    assert dispatch.choose(request()) is native
    assert dispatch.choose(request(chart="polar", margin=0.3)) is native


@needs_kernel
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group": la.get_group("Sim2")}, "not Sim"),
        ({"group": la.matrix_group("SE3", la.SE3.basis())}, "not SE3"),
        ({"weights": lambda w: w}, "block weights"),
        ({"neighbours": torch.zeros(1, 3, 1, dtype=torch.int64)}, "neighbours"),
        ({"q_content": torch.zeros(1, 2, 3, 4)}, "contents"),
        ({"scale": torch.ones(1, 1, 6)}, "scales"),
        ({"first": 2}, "blocks"),
        ({"margin": -1.0}, "margins from 0 on"),
        ({"margin": math.nan}, "margins from 0 on"),
        ({"dtype": torch.float64}, "float64"),
        ({"q_poses": la.SE3.random(1, 3, dtype=torch.float64)}, "float64"),
        ({"weights": torch.ones(2, 2, dtype=torch.float64)}, "float64"),
        ({"values": torch.zeros(1, 2, 3, 4, dtype=torch.float64)}, "values are torch.float64"),
        ({"weights": torch.ones(2, 2, device="meta")}, "on cpu and meta"),
    ],
)
def test_what_is_declined_is_declined_with_a_reason(change: dict[str, object], reason: str) -> None:
    assert reason in str(native.unsupported(request(**change)))


@needs_kernel
def test_the_polar_chart_is_known_where_it_is_the_principal_one() -> None:
    assert native.unsupported(request(chart="polar")) is None
    for group in GROUPS:
        if group.chart_blocks("polar") != group.blocks:
            poses = group.random(1, 3)
            asked = request(group=group, q_poses=poses, k_poses=poses, chart="polar")
            assert "not the polar one" in str(native.unsupported(asked))


def test_without_a_kernel_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    assert native.unsupported(request()) == "gone."
    assert dispatch.choose(request()) is not native


# ---- libraries ---------------------------------------------------------------------------------


@needs_kernel
def test_the_best_library_is_taken_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIEATTN_NATIVE", raising=False)
    assert _native_library.load_best().build == next(iter(LIBRARIES))
    for build in LIBRARIES:
        monkeypatch.setenv("LIEATTN_NATIVE", build)
        assert _native_library.load_best().build == build


@pytest.mark.parametrize(("value", "error"), [("off", "switches it off"), ("neon", "known are")])
def test_the_kernel_can_be_switched_off(
    value: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIEATTN_NATIVE", value)
    kind = _native_library.Missing if value == "off" else ValueError
    with pytest.raises(kind, match=error):
        _native_library.load_best()


@needs_kernel
def test_a_library_that_the_machine_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_library, "_runnable", lambda: ["baseline"])
    monkeypatch.setenv("LIEATTN_NATIVE", "avx512")
    with pytest.raises(_native_library.Missing, match="cannot run the avx512 build, only baseline"):
        _native_library.load_best()
    monkeypatch.delenv("LIEATTN_NATIVE")
    assert _native_library.load_best().build == "baseline"


def test_a_library_that_was_not_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_library, "EXTENSION_SUFFIXES", [".none"])
    with pytest.raises(_native_library.Missing, match=r"baseline build is not there: .* compiler"):
        _native_library.load_best()


@needs_kernel
def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_library, "ABI", _native_library.ABI + 1)
    with pytest.raises(_native_library.Missing, match="another version"):
        _native_library.load_best()
