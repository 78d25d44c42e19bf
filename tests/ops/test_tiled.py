"""`tiled` is the reference by blocks: the same numbers and gradients, in memory linear in N."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

import lieattn as la
from lieattn import Group, scores
from lieattn.ops import _blocks, tiled
from memory import LargestTensor

B, H, N, D = 2, 2, 7, 3


@pytest.fixture(autouse=True)
def _blocks_of_three_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 3 * B * N)


class Case:
    """Poses around one, values, a score and a bias, as leaves that take gradients."""

    def __init__(
        self, group: Group, score: str = "norm", chart: str = "principal", keys: int = N
    ) -> None:
        generator = torch.Generator().manual_seed(0)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        kind, _, directed = score.partition("-")
        self.group, self.chart = group, chart
        self.score = scores.make(kind, group, H, chart=chart, directed=bool(directed)).double()
        for parameter in self.score.parameters():
            parameter.data = 0.5 * random(*parameter.shape)
        self.q = group.exp(0.4 * random(B, N, group.dim)).requires_grad_()
        self.k = (
            group.exp(0.4 * random(B, keys, group.dim)).requires_grad_() if keys != N else self.q
        )
        self.values = random(B, H, keys, D).requires_grad_()
        self.cotangents = random(B, H, N, D), random(B, H, N, group.chart_dim(chart))

    def run(self, backend: str, score: object = None, **options: object) -> tuple[Tensor, Tensor]:
        options = {"exclude_self": self.k is self.q, "chart": self.chart, **options}
        weights = self.score if score is None else score
        return la.lie_attention(
            self.group, self.q, self.k, self.values, weights, backend=backend, **options
        )

    def gradients(self, out: tuple[Tensor, Tensor], *others: Tensor, **how: bool) -> list[Tensor]:
        leaves = list(dict.fromkeys([self.q, self.k, self.values, *others]))
        return list(torch.autograd.grad(out, leaves, self.cotangents, **how))

    def check(self, *others: Tensor, **options: object) -> None:
        """Values and gradients of both backends are the same."""
        others = (*self.score.parameters(), *others)
        a, b = self.run("tiled", **options), self.run("reference", **options)
        assert "ByBlocks" in str(a[0].grad_fn)
        assert_same([*a, *self.gradients(a, *others)], [*b, *self.gradients(b, *others)])


def assert_same(a: list[Tensor], b: list[Tensor]) -> None:
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-10, atol=1e-12)


# ---- the same numbers --------------------------------------------------------------------------


def test_blocks_are_the_reference_on_every_group(any_group: Group) -> None:
    Case(any_group).check(margin=0.1)


@pytest.mark.parametrize("score", [*scores.SCORES, "norm-directed", "mlp-directed"])
def test_blocks_are_the_reference_for_every_score(score: str) -> None:
    Case(la.Aff2, score, "polar").check()


@pytest.mark.parametrize("keys", [N - 3, N + 4])
def test_blocks_are_the_reference_across_sets(keys: int) -> None:
    Case(la.SE2, keys=keys).check()


@pytest.mark.parametrize(
    "shape",
    [(1, N), (N, 1), (N, N), (1, H, N, N), (B, 1, 1, N), (B, 1, N, 1), (B, H, N, N)],
    ids=str,
)
def test_masks_and_biases_broadcast_over_blocks(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(shape, generator=generator) < 0.6
    bias = torch.randn(shape, generator=generator, dtype=torch.float64)
    bias = torch.where(torch.rand(shape, generator=generator) < 0.1, -torch.inf, bias)
    bias.requires_grad_()
    Case(la.SE2).check(bias, mask=mask, bias=bias)


def test_lists_of_neighbours_are_read_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 3 * B * 4)
    generator = torch.Generator().manual_seed(1)
    neighbours = torch.randint(-1, N, (B, N, 4), generator=generator)
    bias = torch.randn(B, H, N, 4, dtype=torch.float64, requires_grad=True)
    Case(la.SE3).check(bias, neighbours=neighbours, bias=bias)


def test_batched_values_on_shared_poses_are_the_reference() -> None:
    case = Case(la.SE2)
    poses = case.q[0].detach()
    arguments = la.SE2, poses, poses, case.values, torch.ones(H, 2)
    assert_same(
        list(la.lie_attention(*arguments, backend="tiled")),
        list(la.lie_attention(*arguments, backend="reference")),
    )


def test_one_block_is_the_reference_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "PAIRS", N * B * N)
    case = Case(la.SE3)
    a, b = case.run("tiled"), case.run("reference")
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_row_is_a_block_where_a_row_is_all_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 1)
    Case(la.SE2).check()


# ---- scores of other people --------------------------------------------------------------------


def test_parameters_that_a_function_holds_get_their_gradient() -> None:
    case, slope = Case(la.SE2), torch.ones(H, dtype=torch.float64, requires_grad=True)

    def score(coords: Tensor) -> Tensor:
        return -slope[:, None, None] * coords.abs().sum(-1).unsqueeze(-3)

    a, b = (case.run(backend, score) for backend in ("tiled", "reference"))
    assert_same([*a, *case.gradients(a, slope)], [*b, *case.gradients(b, slope)])


def test_parameters_put_in_for_one_call_get_their_gradient() -> None:
    case = Case(la.SE2, "full")

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = case.score

        def forward(self, backend: str) -> tuple[Tensor, Tensor]:
            return case.run(backend)

    others = {"score.below": torch.randn(H, 3, dtype=torch.float64, requires_grad=True)}
    a, b = (
        torch.func.functional_call(Layer(), others, (backend,))
        for backend in ("tiled", "reference")
    )
    below = others["score.below"]
    assert_same([*a, *case.gradients(a, below)], [*b, *case.gradients(b, below)])


def test_a_score_with_dropout_drops_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropping(scores.MLPScore):
        def forward(self, coords: Tensor) -> Tensor:
            return nn.functional.dropout(super().forward(coords), 0.5)

    case = Case(la.SE2)
    score = Dropping(la.SE2, H).double()
    found = []
    for keeps in (False, True):  # with the second all blocks are kept, and nothing is drawn again
        monkeypatch.setattr(_blocks, "transformed", lambda keeps=keeps: keeps)
        torch.manual_seed(0)
        out = case.run("tiled", score)
        torch.manual_seed(1)
        found.append([*case.gradients(out, *score.parameters()), torch.rand(3)])
    assert_same(*found)


# ---- derivatives -------------------------------------------------------------------------------


def test_blocks_can_be_differentiated_twice() -> None:
    found = []
    for backend in ("tiled", "reference"):
        case = Case(la.SE2, "norm-directed")
        leaves = [case.q, case.values, *case.score.parameters()]
        first = case.gradients(case.run(backend), *case.score.parameters(), create_graph=True)
        loss = sum(x.square().sum() for x in first)
        found.append(list(torch.autograd.grad(loss, leaves)))
    assert_same(*found)


def test_transforms_of_torch_func_work() -> None:
    case = Case(la.SE2)
    weights = torch.rand(H, 2, dtype=torch.float64) + 0.5

    def loss(backend: str) -> Callable[[Tensor], Tensor]:
        return lambda w: sum(x.square().sum() for x in case.run(backend, w))

    stacked = torch.stack([weights, 2 * weights])
    for transform, x in (
        (torch.func.grad, weights),
        (torch.func.hessian, weights),
        (lambda f: torch.vmap(torch.func.grad(f)), stacked),
        (torch.vmap, stacked),
    ):
        assert_same([transform(loss("tiled"))(x)], [transform(loss("reference"))(x)])


def test_forward_mode_works() -> None:
    case, tangents = Case(la.SE2), []
    for backend in ("tiled", "reference"):
        with forward_ad.dual_level():
            weights = forward_ad.make_dual(*torch.ones(2, H, 2, dtype=torch.float64))
            tangents.append([forward_ad.unpack_dual(x).tangent for x in case.run(backend, weights)])
    assert_same(*tangents)


def test_nothing_is_recorded_where_nobody_wants_a_gradient() -> None:
    case = Case(la.SE2)
    with torch.no_grad():
        assert not case.run("tiled")[0].requires_grad
    case.score.requires_grad_(False)
    for name in ("q", "k", "values"):
        setattr(case, name, getattr(case, name).detach())
    assert not case.run("tiled")[0].requires_grad


def test_a_tensor_changed_before_the_backward_pass_is_found() -> None:
    case, mask = Case(la.SE2), torch.ones(N, N, dtype=torch.bool)
    out = case.run("tiled", mask=mask)
    mask[0] = False
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        case.gradients(out)


# ---- life with torch ---------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["auto", "tiled"])
def test_operators_compile_whole(backend: str) -> None:
    torch._dynamo.reset()
    case = Case(la.SE2)
    compiled = torch.compile(case.run, fullgraph=True, backend="aot_eager")
    assert_same(list(compiled(backend)), list(case.run("reference")))


@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs_take_any_number_of_tokens(strict: bool) -> None:
    class Operator(nn.Module):
        def forward(self, poses: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            weights, options = torch.ones(H, 2), {"exclude_self": True, "backend": "tiled"}
            return la.lie_attention(la.SE2, poses, poses, values, weights, **options)

    tokens = torch.export.Dim("tokens", min=2)
    example = la.SE2.random(B, N), torch.randn(B, H, N, D)
    shapes = {1: tokens}, {2: tokens}
    program = torch.export.export(Operator(), example, dynamic_shapes=shapes, strict=strict)
    poses, values = la.SE2.random(B, 40), torch.randn(B, H, 40, D)
    got, expected = program.module()(poses, values), Operator()(poses, values)
    torch.testing.assert_close(got, expected)


def test_autocast_leaves_blocks_in_float32() -> None:
    case, weights = Case(la.SE2), torch.ones(H, 2, requires_grad=True)
    case.q = case.k = case.q.detach().float()
    case.values = case.values.detach().float().requires_grad_()
    found = []
    for autocast in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = case.run("tiled", weights)
        found.append(
            [*out, *torch.autograd.grad(out[0].sum() + out[1].sum(), [case.values, weights])]
        )
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


# ---- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["norm", "full"])
def test_no_tensor_grows_with_the_square_of_the_tokens(
    score: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 256
    monkeypatch.setattr(tiled, "PAIRS", 8 * n)
    poses = la.SE2.random(n).requires_grad_()
    values = torch.randn(H, n, D).requires_grad_()
    for backend, linear in (("tiled", True), ("reference", False)):
        with LargestTensor() as largest:
            out = la.lie_attention(
                la.SE2, poses, poses, values, scores.make(score, la.SE2, H), backend=backend
            )
            (out[0].sum() + out[1].sum()).backward()
        assert (largest.elements < n * n) == linear


def test_what_is_kept_for_the_backward_pass_is_the_input() -> None:
    kept = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x.numel())
        return x

    case = Case(la.SE2)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        case.run("tiled", torch.ones(H, 2, requires_grad=True))
    assert sum(kept) == 2 * case.q.numel() + case.values.numel() + 2 * H
