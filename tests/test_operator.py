"""`lie_attention` is the paper's formula, in values and gradients, whatever the options."""

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group, scores
from literal import literal_attention

B, N, H, D = 2, 5, 2, 4
MASKS = ("none", "padding", "arbitrary", "causal", "heads")
SCORES = [*scores.SCORES, "norm-log", "norm-directed", "mlp-directed"]


def make_score(name: str, group: Group, chart: str, generator: torch.Generator) -> scores.Score:
    """A score with random parameters."""
    kind, _, option = name.partition("-")
    positive = "log" if option == "log" else "softplus"
    score = scores.make(
        kind, group, H, chart=chart, positive=positive, directed=option == "directed"
    )
    for parameter in score.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    return score


def make_mask(kind: str, keys: int, generator: torch.Generator) -> Tensor:
    """Boolean masks that broadcast to [B, H, Nq, Nk]."""
    if kind == "padding":
        real = torch.arange(keys)[None] < torch.tensor([[keys], [keys - 2]])
        return real[:, None, None, :]
    if kind == "causal":
        return torch.ones(N, keys, dtype=torch.bool).tril()
    shape = (B, H, N, keys) if kind == "heads" else (B, 1, N, keys)
    mask = torch.rand(shape, generator=generator) < 0.6
    mask[0, :, 1] = False  # a row with nothing to attend to
    return mask if kind != "none" else torch.ones(1, dtype=torch.bool)


class Case:
    """Random poses, states and weights, as leaves that take gradients."""

    q: Tensor
    k: Tensor
    h: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, group: Group, score: scores.Score, keys: int, dtype: torch.dtype, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.group, self.score = group, score.to(dtype)

        def random(*shape: int) -> Tensor:
            # Drawn in float64, so that both dtypes see the same case.
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        base = group.random(B, 1, generator=generator, dtype=torch.float64)
        size = D + group.chart_dim(score.chart)
        # Weights of the size that a linear layer has, so that outputs are of order 1.
        leaves = {
            "q": self.near(base, random(B, N, group.dim)),
            "k": self.near(base, random(B, keys, group.dim)),
            "h": random(B, keys, D),
            "weight": random(D, size) * size**-0.5,
            "bias": random(B, H, N, keys),
        }
        for name, x in leaves.items():
            setattr(self, name, x.to(dtype).requires_grad_())
        if keys == N:
            self.k = self.q
        self.cotangent = (random(B, N, D) / N).to(dtype)

    def near(self, base: Tensor, x: Tensor) -> Tensor:
        """Poses around one, near enough for all pairs to be well on the chart."""
        return self.group.compose(base, self.group.exp(0.4 * x))

    def leaves(self) -> list[Tensor]:
        poses = [self.q] if self.k is self.q else [self.q, self.k]
        return [*poses, self.h, self.weight, self.bias, *self.score.parameters()]

    def gradients(self, out: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(out, self.leaves(), self.cotangent))

    def operator(self, mask: Tensor | None, exclude_self: bool, **options: object) -> Tensor:
        """The operator's two sums, put together by the split value map."""
        values = (self.h @ self.weight[:, :D].T).unflatten(-1, (H, -1)).transpose(1, 2)
        mixed, coords = la.lie_attention(
            self.group,
            self.q,
            self.k,
            values,
            self.score,
            mask,
            exclude_self,
            self.score.chart,
            bias=options.get("bias", self.bias),
            neighbours=options.get("neighbours"),
        )
        pose_weight = self.weight[:, D:].unflatten(0, (H, -1))
        return (mixed + coords @ pose_weight.mT).transpose(1, 2).flatten(-2)

    def literal(self, mask: Tensor, exclude_self: bool) -> Tensor:
        allowed = mask.expand(B, H, N, self.k.shape[1]).clone()
        if exclude_self:
            allowed &= ~torch.eye(N, dtype=torch.bool)
        return literal_attention(
            self.group, self.h, self.q, self.k, self.weight, self.score, allowed, self.bias
        )


def assert_same(a: list[Tensor], b: list[Tensor], dtype: torch.dtype) -> None:
    """Agreement to 1e-6 or 1e-12 of the norm, or absolutely below a norm of 1."""
    limit = 1e-6 if dtype == torch.float32 else 1e-12
    for x, y in zip(a, b, strict=True):
        assert (x - y).norm() <= limit * max(1.0, y.norm().item())


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_operator_is_the_printed_formula(
    score: str, mask: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    case = Case(la.SE2, make_score(score, la.SE2, "principal", generator), N, dtype)
    m = make_mask(mask, N, generator)
    out, expected = case.operator(m, True), case.literal(m, True)
    assert_same([out], [expected], dtype)
    assert_same(case.gradients(out), case.gradients(expected), dtype)


@pytest.mark.parametrize("chart", ["principal", "polar"])
@pytest.mark.parametrize("score", SCORES)
def test_operator_is_the_printed_formula_in_both_charts_and_across_sets(
    score: str, chart: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    case = Case(la.Aff2, make_score(score, la.Aff2, chart, generator), N + 2, dtype)
    m = make_mask("heads", N + 2, generator)
    out, expected = case.operator(m, False), case.literal(m, False)
    assert_same([out], [expected], dtype)
    assert_same(case.gradients(out), case.gradients(expected), dtype)


def test_operator_is_the_printed_formula_on_every_group(
    group: Group, dtype: torch.dtype, generator: torch.Generator
) -> None:
    case = Case(group, make_score("norm", group, "principal", generator), N, dtype)
    m = make_mask("padding", N, generator)
    out, expected = case.operator(m, True), case.literal(m, True)
    assert_same([out], [expected], dtype)
    assert_same(case.gradients(out), case.gradients(expected), dtype)


def test_block_weights_are_the_norm_score(generator: torch.Generator) -> None:
    score = make_score("norm", la.SE3, "principal", generator)
    poses, values = la.SE3.random(B, N, generator=generator), torch.randn(B, H, N, D)
    by_weights = la.lie_attention(la.SE3, poses, poses, values, score.weights)
    by_score = la.lie_attention(la.SE3, poses, poses, values, score)
    assert_same(list(by_weights), list(by_score), torch.float32)


def test_operator_works_for_a_group_known_by_its_generators(generator: torch.Generator) -> None:
    E = torch.zeros(3, 3, 3)
    E[0, 0, 1] = E[1, 1, 2] = E[2, 0, 2] = 1
    heisenberg = la.matrix_group("Heisenberg", E)
    case = Case(
        heisenberg, make_score("norm", heisenberg, "principal", generator), N, torch.float64
    )
    m = make_mask("none", N, generator)
    assert_same([case.operator(m, True)], [case.literal(m, True)], torch.float64)


# ---- neighbour lists ---------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["norm", "mlp", "full"])
def test_lists_of_neighbours_are_a_mask(score: str, generator: torch.Generator) -> None:
    case = Case(la.SE3, make_score(score, la.SE3, "principal", generator), N, torch.float64)
    neighbours = torch.stack(
        [torch.stack([torch.randperm(N, generator=generator)[:3] for _ in range(N)])] * B
    )
    neighbours[0, 2, 1:] = -1
    neighbours[1, 3] = -1  # a query without neighbours
    mask = torch.zeros(B, N, N + 1, dtype=torch.bool).scatter(2, neighbours % (N + 1), True)
    mask = mask[:, None, :, :N]
    bias = case.bias.gather(3, neighbours.clamp(min=0)[:, None].expand(B, H, N, 3))
    out = case.operator(None, True, neighbours=neighbours, bias=bias)
    expected = case.operator(mask, True)
    assert_same([out], [expected], torch.float64)
    assert_same(case.gradients(out), case.gradients(expected), torch.float64)


def test_lists_of_neighbours_need_no_batch(generator: torch.Generator) -> None:
    poses = la.SE2.random(N, generator=generator)
    values, weights = torch.randn(H, N, D), torch.ones(H, 2)
    everyone = torch.arange(N).expand(N, N)
    listed = la.lie_attention(la.SE2, poses, poses, values, weights, neighbours=everyone)
    dense = la.lie_attention(la.SE2, poses, poses, values, weights)
    assert_same(list(listed), list(dense), torch.float32)


# ---- rows with nothing to attend to ------------------------------------------------------------


def test_a_row_with_nothing_to_attend_to_is_zero_with_zero_gradient(group: Group) -> None:
    poses = group.random(B, N).requires_grad_()
    values, weights = torch.randn(B, H, N, D).requires_grad_(), torch.ones(H, len(group.blocks))
    nothing = torch.zeros(B, H, N, N, dtype=torch.bool)
    out, coords = la.lie_attention(group, poses, poses, values, weights, nothing)
    assert not out.any()
    assert not coords.any()
    gradients = torch.autograd.grad(out.sum() + coords.sum(), [poses, values])
    assert all(not g.any() for g in gradients)  # NaN counts as any


def test_a_bias_of_minus_infinity_masks() -> None:
    poses, values = la.SE2.random(B, N), torch.randn(B, H, N, D)
    mask = torch.rand(B, H, N, N) < 0.5
    mask[0, 0, 0] = False
    bias = torch.zeros(B, H, N, N).masked_fill(~mask, -torch.inf).requires_grad_()
    weights = torch.ones(H, 2)
    out, coords = la.lie_attention(la.SE2, poses, poses, values, weights, bias=bias)
    expected = la.lie_attention(la.SE2, poses, poses, values, weights, mask)
    assert_same([out, coords], list(expected), torch.float32)
    assert torch.autograd.grad(out.sum(), bias)[0].isfinite().all()


@pytest.mark.parametrize("count", [0, 1])
def test_sets_of_no_and_of_one_token_give_zeros(group: Group, count: int) -> None:
    poses, values = group.random(B, count), torch.randn(B, H, count, D)
    weights = torch.ones(H, len(group.blocks))
    out, coords = la.lie_attention(group, poses, poses, values, weights)
    assert out.shape == (B, H, count, D)
    assert coords.shape == (B, H, count, group.dim)
    assert not out.any()


def test_pairs_off_the_chart_are_not_attended_to() -> None:
    mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    poses = torch.stack([torch.eye(3), mirror, 2 * torch.eye(3)])
    poses[2, 2, 2] = 1
    values = torch.tensor([1.0, 2.0, 4.0])[None, :, None]
    weights = torch.ones(1, 4)
    out, _ = la.lie_attention(la.Aff2, poses, poses, values, weights)
    assert out[0, :, 0].tolist() == [4.0, 0.0, 1.0]
    out, _ = la.lie_attention(la.Aff2, poses, poses, values, torch.ones(1, 5), chart="polar")
    assert out[0, 1, 0] > 0


# ---- shapes and messages -----------------------------------------------------------------------


def test_batch_dimensions_are_any(generator: torch.Generator) -> None:
    poses = la.SE2.random(2, 3, N, generator=generator)
    values, weights = torch.randn(2, 3, H, N, D), torch.ones(H, 2)
    out, _ = la.lie_attention(la.SE2, poses, poses, values, weights)
    single, _ = la.lie_attention(la.SE2, poses[1, 2], poses[1, 2], values[1, 2], weights)
    assert_same([out[1, 2]], [single], torch.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": torch.zeros(B, H, N + 1, D)}, r"values must have shape \[2, H, 5, dv\]"),
        ({"values": torch.zeros(3, H, N, D)}, "values must have shape"),
        ({"weights": torch.ones(H, 3)}, "blocks of SE.2. in the principal chart: translation"),
        ({"weights": torch.ones(3, 2)}, r"weights must have shape \[2, 2\]"),
        ({"mask": torch.ones(B, H, N, N)}, "mask must be boolean"),
        ({"mask": torch.ones(B, N, dtype=torch.bool)}, r"mask\[:, None, None, :\]"),
        ({"bias": torch.zeros(B, H, N, 2)}, "bias must broadcast to"),
        ({"k_poses": la.SE2.random(B, 3), "exclude_self": True}, "exclude_self=False"),
        ({"k_poses": la.SO2.random(B, N)}, "must have shape"),
        ({"q_poses": la.SE2.random()}, "must be a set"),
        ({"chart": "cartesian"}, "unknown chart"),
        ({"backend": "cuda"}, "unknown backend 'cuda'; known are auto"),
        ({"neighbours": torch.zeros(B, N, 2)}, "int64 indices"),
        ({"neighbours": torch.full((B, N, 2), N)}, "0 to 4, or -1"),
        ({"neighbours": torch.zeros(B, 2, 2, dtype=torch.int64)}, "one list of keys"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    poses = la.SE2.random(B, N)
    arguments: dict[str, object] = {
        "q_poses": poses,
        "k_poses": poses,
        "values": torch.zeros(B, H, N, D),
        "weights": torch.ones(H, 2),
    }
    with pytest.raises(ValueError, match=message):
        la.lie_attention(la.SE2, **{**arguments, **change})
