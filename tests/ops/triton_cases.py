"""What `test_triton.py` runs in a process of its own, with `TRITON_INTERPRET=1`."""

import os

import config_cases
import pytest
import request_cases
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group
from lieattn.geometry.pairs import relations
from lieattn.ops import Request, dispatch
from lieattn.ops import triton as backend
from lieattn.ops.triton import op as _triton_ops

pytestmark = [
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="run by test_triton.py"),
    # numpy warns of overflow in branches that are not taken
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

KINDS = ("easy", "near", "cut", "scales")


def by_triton(group: Group, *leaves: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    asked = Request(group, *leaves, **options)
    return dispatch.run(asked, "triton")


def by_reference(group: Group, *leaves: Tensor, **options: object) -> tuple[Tensor, Tensor]:
    return la.lie_attention(
        group, *leaves, **{"exclude_self": False, **options}, backend="reference"
    )


def along_group(group: Group, g: Tensor, gradient: Tensor) -> Tensor:
    """Components of an ambient gradient along the motions `g B_k` of a pose."""
    moved = g.detach().double()[..., None, :, :] @ group.basis(dtype=torch.float64)
    return (gradient.double()[..., None, :, :] * moved).sum((-2, -1))


def results(
    attend, group: Group, leaves: list[Tensor], dtype: torch.dtype, seed: int = 0, **options: object
) -> dict[str, Tensor]:
    """Both sums and all gradients, in float64; leaves are rounded to float32 first."""
    leaves = [x.float().to(dtype).requires_grad_() for x in leaves]
    bias, size = options.pop("bias", None), options.pop("cotangent", 1.0)
    if bias is not None:
        options["bias"] = bias.float().to(dtype).requires_grad_()
    out, coords = attend(group, *leaves, **options)
    draw = torch.Generator().manual_seed(seed)
    loss = torch.zeros((), dtype=dtype)
    for x, factor in ((out, 1.0), (coords, size)):
        loss = loss + (x * factor * torch.randn(x.shape, generator=draw).to(dtype)).sum()
    wanted = [*leaves, options["bias"]] if bias is not None else leaves
    found = torch.autograd.grad(loss, wanted)
    names = ("q", "k", "values", "weights", "bias")
    gradients = {f"d {name}": x for name, x in zip(names, found, strict=False)}
    for name, poses in (("d q", leaves[0]), ("d k", leaves[1])):
        gradients[name] = along_group(group, poses, gradients[name])
    return {
        name: x.detach().double() for name, x in {"out": out, "coords": coords, **gradients}.items()
    }


def part_of(group: Group, kind: str) -> Tensor:
    """Coordinates of blocks of a kind, `[dim]` boolean."""
    return torch.tensor([block.kind == kind for block in group.blocks for _ in range(block.dim)])


def poses_of_kind(kind: str, group: Group, n: int, draw: torch.Generator) -> Tensor:
    """Sets `[1, n, m, m]`: easy, 1e-4 apart, 0.01 to 0.06 from half turns, of all sizes."""
    x = torch.randn(1, n, group.dim, generator=draw, dtype=torch.float64)
    base = group.random(1, 1, generator=draw, dtype=torch.float64)
    turn, shift = part_of(group, "rotation"), part_of(group, "translation")
    if kind == "easy":
        return group.compose(base, group.exp(0.4 * x))
    if kind == "near":
        return group.compose(base, group.exp(1e-4 * x))
    spread = torch.rand(1, n, 1, generator=draw, dtype=torch.float64)
    if kind == "cut":
        first = turn & (turn.cumsum(0) == 1)
        far = (torch.arange(n) % 2 == 1)[:, None]
        angle = torch.where(far & first, (torch.pi - 0.01 - 0.05 * spread) * 2**0.5, 0)
        apart = group.compose(base, group.exp(angle + torch.where(shift, x, 0)))
        return group.compose(apart, group.exp(1e-3 * x))
    size = 10 ** (6 * spread - 3)
    linear = torch.where(part_of(group, "scale"), size.log() * 2**0.5, 0.4 * x)
    g = group.exp(torch.where(shift, 0, linear))
    if shift.any():
        g[..., : group.n, group.n] = (size * x)[..., : group.n]
    return g


def case_of_kind(kind: str, group: Group, n: int, heads: int, seed: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    g = poses_of_kind(kind, group, n, draw)
    values = torch.randn(1, heads, n, 5, generator=draw, dtype=torch.float64)
    weights = 0.2 + torch.rand(heads, len(group.blocks), generator=draw, dtype=torch.float64)
    if kind == "near":
        weights = weights * 1e8  # logits of order 1
    if kind == "scales":
        large = torch.tensor([block.kind == "translation" for block in group.blocks])
        weights = torch.where(large, 1e-5, 1.0) * weights
    return [g, g, values, weights]


# ---- accuracy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind"),
    [(group, kind) for group in (la.SO3, la.SE3, la.Aff2) for kind in KINDS]
    # The same kernel as SE(3).
    + [(la.SO2, "near"), (la.SO2, "cut"), (la.SE2, "easy"), (la.SE2, "scales")],
    ids=str,
)
def test_errs_at_most_twice_as_much_as_the_reference(
    group: Group, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_triton_ops, "BLOCK", 64)  # the interpreter's time goes by tiles
    options = {"exclude_self": True, "cotangent": 1e4 if kind == "near" else 1.0}
    truth, error, own = [], [], []
    for seed in range(8):
        leaves = case_of_kind(kind, group, 40, 1, seed)
        exact = results(by_reference, group, leaves, torch.float64, seed, **options)
        rounded = results(by_reference, group, leaves, torch.float32, seed, **options)
        truth.append({name: x.norm() for name, x in exact.items()})
        own.append({name: (rounded[name] - x).norm() for name, x in exact.items()})
        if seed < 2:
            found = results(by_triton, group, leaves, torch.float32, seed, **options)
            error.append({name: (found[name] - x).norm() for name, x in exact.items()})
    for name in truth[0]:
        sizes = torch.stack([x[name] for x in truth])
        theirs = torch.stack([x[name] for x in own])
        ours = torch.stack([x[name] for x in error]).norm() / sizes[:2].norm()
        allowed = max(theirs.norm() / sizes.norm(), theirs[:2].norm() / sizes[:2].norm())
        if name == "d weights":
            # Looser: the reference's worst set, not its average. These are a few numbers, each one
            # sum over all pairs that cancels, and two sets do not tell an average: the reference
            # errs by 5e-8 on one and 5e-6 on the next. Over 20 sets medians were 0.3 to 1.7 times
            # the reference's, yet up to 8 sets of 20 above twice (SO(2) near the cut).
            allowed = (theirs / sizes).max()
        print(f"{group!s:7}{kind:7}{name:10} {ours:.1e} {allowed:.1e}")
        assert ours <= 2 * allowed, (name, ours, allowed)


def test_every_case_of_the_affine_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one key the coordinates are the logarithm itself: scales, shears, rotations."""
    monkeypatch.setattr(_triton_ops, "BLOCK", 128)
    draw = torch.Generator().manual_seed(0)
    n = 600
    x = torch.randn(1, n, 6, generator=draw, dtype=torch.float64)
    size = 10 ** (3 * torch.rand(1, n, 4, generator=draw, dtype=torch.float64) - 2)
    x[..., 2:] *= size
    x[..., 2] = x[..., 2].clamp(-4.2, 4.2)  # sqrt(2) times the angle
    x[..., 3:] = x[..., 3:].clamp(-8, 8)
    x = torch.where(torch.rand(1, n, 6, generator=draw) < 0.25, 0, x)  # equal eigenvalues too
    g = la.Aff2.inverse(la.Aff2.exp(x))
    one = la.Aff2.identity(1, 1, dtype=torch.float64)
    valid = relations(la.Aff2, g, one, margin=0.05).valid[0, :, 0]
    g = g[:, valid]
    leaves = [g, one, torch.zeros(1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 4)]
    found = results(by_triton, la.Aff2, leaves, torch.float32)
    own = results(by_reference, la.Aff2, leaves, torch.float32)
    exact = results(by_reference, la.Aff2, leaves, torch.float64)
    for name in ("coords", "d q"):
        size = exact[name].norm(dim=-1) + 1e-30
        ours = ((found[name] - exact[name]).norm(dim=-1) / size).flatten()
        theirs = ((own[name] - exact[name]).norm(dim=-1) / size).flatten()
        for q in (0.5, 0.9, 0.99, 1.0):
            assert ours.quantile(q) <= 2 * theirs.quantile(q), (name, q)


# ---- shapes ------------------------------------------------------------------------------------


def assert_agrees(group: Group, leaves: list[Tensor], **options: object) -> None:
    """Values and gradients within 3e-6 of the truth: some dozen roundings."""
    found = results(by_triton, group, leaves, torch.float32, **dict(options))
    exact = results(by_reference, group, leaves, torch.float64, **dict(options))
    for name, x in exact.items():
        assert found[name].shape == x.shape
        assert (found[name] - x).norm() <= 3e-6 * max(1.0, x.norm()), name


def case(
    group: Group, queries: int, keys: int, heads: int, width: int, batch: tuple[int, ...] = (1,)
) -> list[Tensor]:
    draw = torch.Generator().manual_seed(queries + 100 * keys)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    q = group.exp(0.4 * normal(*batch, queries, group.dim))
    k = group.exp(0.4 * normal(*batch, keys, group.dim))
    values = normal(*batch, heads, keys, width)
    return [q, k, values, 0.2 + normal(heads, len(group.blocks)).abs()]


@pytest.mark.parametrize(
    ("group", "queries", "keys", "heads", "width"),
    [
        (la.SO3, 1, 1, 1, 5),
        (la.SE3, 1, 7, 3, 16),
        (la.SE3, 7, 2, 1, 5),
        (la.Aff2, 2, 33, 1, 5),
        (la.SE3, 33, 17, 1, 16),
        (la.Aff2, 7, 1, 3, 5),
        (la.SO2, 16, 16, 1, 1),
    ],
    ids=str,
)
def test_sizes_are_any(group: Group, queries: int, keys: int, heads: int, width: int) -> None:
    assert_agrees(group, case(group, queries, keys, heads, width))


@pytest.mark.parametrize("count", [2, 7, 17])
def test_tokens_do_not_attend_to_themselves(count: int) -> None:
    assert_agrees(la.SO3, case(la.SO3, count, count, 1, 5), exclude_self=True)


@pytest.mark.parametrize("count", [0, 1])
def test_sets_of_no_and_of_one_token_give_zeros(count: int) -> None:
    leaves = [x.float().requires_grad_() for x in case(la.SE3, count, count, 2, 3)]
    out, coords = by_triton(la.SE3, *leaves, exclude_self=True)
    assert out.shape == (1, 2, count, 3)
    assert coords.shape == (1, 2, count, 6)
    assert not out.any()
    assert not coords.any()
    assert all(not g.any() for g in torch.autograd.grad(out.sum() + coords.sum(), leaves))


@pytest.mark.parametrize("batch", [(), (2, 2)], ids=str)
def test_batch_dimensions_are_any(batch: tuple[int, ...]) -> None:
    q, k, values, weights = case(la.SE2, 3, 4, 1, 5, batch)
    q = q[:1] if batch else q  # broadcasts
    mask = torch.rand(*batch, 1, 1, 4, generator=torch.Generator().manual_seed(0)) < 0.8
    assert_agrees(la.SE2, [q, k, values, weights], mask=mask)


def test_wide_heads_are_done_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_WIDEST", 16)
    assert_agrees(la.SE3, case(la.SE3, 5, 6, 1, 37))


def test_values_may_be_bfloat16() -> None:
    q, k, values, weights = (x.float() for x in case(la.SE3, 5, 5, 2, 8))
    out, coords = by_triton(la.SE3, q, k, values.bfloat16(), weights)
    exact, _ = by_reference(la.SE3, q, k, values.bfloat16(), weights)
    assert out.dtype == torch.bfloat16
    assert coords.dtype == torch.float32
    assert torch.allclose(out.float(), exact.float(), atol=0, rtol=2**-7)


# ---- masks and biases --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 6), (2, 1, 1, 6), (1, 2, 5, 1), (2, 2, 5, 6)], ids=str)
def test_masks_and_biases_broadcast(shape: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(1)
    mask = torch.rand(shape, generator=draw) < 0.7
    bias = torch.randn(shape, generator=draw, dtype=torch.float64)
    leaves = case(la.SO3, 5, 6, 2, 4, (2,))
    assert_agrees(la.SO3, leaves, mask=mask, bias=bias)


def test_masks_and_biases_may_be_views() -> None:
    draw = torch.Generator().manual_seed(1)
    mask = (torch.rand(6, 5, generator=draw) < 0.7).mT
    bias = torch.randn(12, 5, generator=draw, dtype=torch.float64)[::2].mT
    assert_agrees(la.SO3, case(la.SO3, 5, 6, 1, 4), mask=mask, bias=bias)


def test_a_bias_of_minus_infinity_masks() -> None:
    leaves = case(la.SE3, 4, 4, 2, 3)
    bias = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    bias[0, 0, 1] = bias[0, 1, 2, :2] = -torch.inf
    assert_agrees(la.SE3, leaves, bias=bias, exclude_self=True)


@pytest.mark.parametrize("group", [la.SE3, la.Aff2], ids=str)
def test_a_row_with_nothing_to_attend_to_is_zero_with_zero_gradient(group: Group) -> None:
    leaves = [x.float().requires_grad_() for x in case(group, 4, 4, 2, 3)]
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    out, coords = by_triton(group, *leaves, mask=nothing)
    assert not out.any()
    assert not coords.any()
    assert all(not g.any() for g in torch.autograd.grad(out.sum() + coords.sum(), leaves))


# ---- the chart ---------------------------------------------------------------------------------


def test_pairs_off_the_chart_and_poses_that_are_none_are_left_out() -> None:
    q, _, values, weights = case(la.Aff2, 6, 6, 1, 3)
    q = q.clone()
    q[0, 1] @= torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))  # a mirror image
    q[0, 2, :2, :2] = 0  # singular
    q[0, 3, 0, 1] = torch.nan
    leaves = [x.float().requires_grad_() for x in (q, q, values, weights)]
    out, coords = by_triton(la.Aff2, *leaves, exclude_self=True)
    gradients = torch.autograd.grad(out.sum() + coords.sum(), leaves)
    assert all(g.isfinite().all() for g in gradients)
    assert not any(g[0, 1:4].any() for g in gradients[:2])
    keep = [0, 4, 5]
    exact, _ = by_reference(
        la.Aff2, *(x.float()[:, keep] for x in (q, q)), values.float()[:, :, keep],
        weights.float(), exclude_self=True,
    )  # fmt: skip
    assert not out[0, 0, 1:4].any()
    assert torch.allclose(out[:, :, keep], exact, atol=1e-6)


def test_poses_that_are_not_finite_are_left_out() -> None:
    leaves = [x.float() for x in case(la.SE3, 4, 4, 1, 3)]
    leaves[0][0, 1], leaves[1][0, 2] = torch.nan, torch.inf
    leaves = [x.requires_grad_() for x in leaves]
    out, coords = by_triton(la.SE3, *leaves)
    gradients = torch.autograd.grad(out.sum() + coords.sum(), leaves)
    assert all(g.isfinite().all() for g in gradients)
    keep = [x.detach()[..., [0, 1, 3], :, :] for x in leaves[:2]]
    exact, _ = by_reference(la.SE3, leaves[0].detach(), keep[1], leaves[2][:, :, [0, 1, 3]],
                            leaves[3])  # fmt: skip
    assert torch.allclose(out[:, :, [0, 2, 3]], exact[:, :, [0, 2, 3]], atol=1e-6)
    assert not out[:, :, 1].any()


@pytest.mark.parametrize("group", [la.SO2, la.SE3, la.Aff2], ids=str)
def test_a_margin_leaves_out_what_the_reference_leaves_out(group: Group) -> None:
    draw = torch.Generator().manual_seed(3)
    turn = part_of(group, "rotation")
    x = torch.randn(1, 12, group.dim, generator=draw, dtype=torch.float64)
    g = group.compose(group.exp(torch.where(turn, 2 * x, 0)), group.exp(0.2 * x))
    leaves = [g, g, torch.eye(12, dtype=torch.float64)[None, None],
              torch.full((1, len(group.blocks)), 0.1)]  # fmt: skip
    inside = relations(group, g, g, margin=0.5).valid
    assert 0 < (~inside).sum() < 100
    assert_agrees(group, leaves, margin=0.5)


# ---- every field of a request ------------------------------------------------------------------

# One a field in `make test`, since the interpreter takes a second for each; else all.
SMOKE = os.environ.get("LIEATTN_FAULTS", "smoke") in ("smoke", "quick")
CASES = [
    case for cases in request_cases.cases().values() for case in (cases[:1] if SMOKE else cases)
]
OPTIONS = ("content", "normalise", "chart", "exclude_self") if SMOKE else config_cases.CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_as_the_reference_or_refuses(
    case: request_cases.Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_triton_ops, "BLOCK", 16)
    if not request_cases.check(case, "triton"):
        assert case.name.split("-")[0] not in {"mask", "bias", "exclude_self", "margin", "prune"}


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # when oneDNN is off
@pytest.mark.parametrize(
    "case",
    [case for name in OPTIONS for case in config_cases.CASES[name]],
    ids=lambda case: case.name,
)
def test_layers_answer_as_the_reference_or_refuse(
    case: config_cases.Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_triton_ops, "BLOCK", 16)
    answered = config_cases.check(case, "triton")
    monkeypatch.setattr(dispatch, "FAST", {"cpu": ("triton",)})
    assert answered or config_cases.check(case, "auto")


# ---- the rest ----------------------------------------------------------------------------------


def test_a_weight_that_is_not_a_number_is_not_hidden() -> None:
    q, k, values, weights = (x.float() for x in case(la.SE3, 4, 4, 1, 3))
    out, coords = by_triton(la.SE3, q, k, values, weights * torch.nan)
    assert out.isnan().all()
    assert coords.isnan().all()


def test_gradients_of_values_do_not_need_those_of_poses() -> None:
    leaves = [x.float() for x in case(la.SE3, 4, 5, 2, 3)]
    leaves[2].requires_grad_()
    out, _ = by_triton(la.SE3, *leaves)
    exact, _ = by_reference(la.SE3, *leaves)
    found, expected = (torch.autograd.grad(x.square().sum(), leaves[2])[0] for x in (out, exact))
    assert torch.allclose(found, expected, atol=1e-6)


def op_arguments() -> tuple[object, ...]:
    q, k, values, weights = (x.float() for x in case(la.SE3, 3, 4, 1, 3))
    weights = weights.repeat_interleave(3, dim=1)
    leaves = [x.requires_grad_() for x in (q, k, values, weights)]
    mask = torch.rand(1, 1, 3, 4, generator=torch.Generator().manual_seed(0)) < 0.8
    bias = torch.zeros(1, 1, 3, 1, requires_grad=True)
    return "SE3", *leaves, mask, bias, False, 0.0


def test_the_op_is_registered_as_torch_wants_it() -> None:
    torch.library.opcheck(_triton_ops.triton_forward, op_arguments())


def test_the_backend_compiles_in_one_graph() -> None:
    def loss(*leaves: Tensor) -> Tensor:
        out, coords = by_triton(la.SE2, *leaves)
        return out.square().sum() + coords.square().sum()

    leaves = [x.float().requires_grad_() for x in case(la.SE2, 3, 4, 2, 3)]
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(*leaves), leaves)
    expected = torch.autograd.grad(loss(*leaves), leaves)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


def test_autocast_does_not_reach_the_geometry() -> None:
    leaves = [x.float().requires_grad_() for x in case(la.Aff2, 3, 4, 1, 3)]
    expected = torch.autograd.grad(by_triton(la.Aff2, *leaves)[0].square().sum(), leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(by_triton(la.Aff2, *leaves)[0].square().sum(), leaves)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


def test_second_derivatives_are_refused_not_wrong() -> None:
    leaves = [x.float().requires_grad_() for x in case(la.SO3, 3, 3, 1, 2)]
    loss = by_triton(la.SO3, *leaves)[0].square().sum()
    (gradient,) = torch.autograd.grad(loss, leaves[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        gradient.square().sum().backward()


def test_torch_func_is_declined() -> None:
    q, k, values, weights = (x.float() for x in case(la.SO3, 2, 3, 1, 2))

    def ask(values: Tensor) -> Tensor:
        reason = backend.unsupported(Request(la.SO3, q, k, values, weights))
        assert reason is not None
        assert "vmap" in reason
        return values

    torch.func.vmap(ask)(values[None])
