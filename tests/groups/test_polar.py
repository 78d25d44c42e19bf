"""The polar chart of Aff(n): every invertible matrix, both ways."""

import math

import pytest
import torch
from torch import Tensor

import lieattn
from lieattn import Aff2, Aff3, Group

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
COUNT = 10_000


def ill_conditioned(group: Group, dtype: torch.dtype) -> Tensor:
    """Poses with condition numbers log-uniform from 1 to 1e4; every second has det < 0."""
    n, generator = group.n, torch.Generator().manual_seed(11)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    U, V = torch.linalg.qr(normal(2, COUNT, n, n))[0]
    exponents = torch.rand(COUNT, n, generator=generator, dtype=torch.float64)
    exponents[:, 0], exponents[:, 1] = 0, 1
    condition = torch.rand(COUNT, 1, generator=generator, dtype=torch.float64) * math.log(1e4)
    sigma = torch.exp(normal(COUNT, 1) - exponents * condition)
    A = U @ torch.diag_embed(sigma) @ V
    wanted = torch.where(torch.arange(COUNT) % 2 == 0, 1.0, -1.0)
    A[:, :, 0] *= (wanted * torch.linalg.det(A).sign())[:, None]
    return group.from_parts(A, normal(COUNT, n)).to(dtype)


def relative_error(value: Tensor, truth: Tensor) -> Tensor:
    return (value - truth).norm(dim=-1) / (1 + truth.norm(dim=-1))


@pytest.fixture(params=["Aff2", "Aff3"])
def affine(request: pytest.FixtureRequest) -> Group:
    return lieattn.get_group(request.param)


def test_exp_inverts_log_on_every_invertible_matrix(affine: Group, dtype: torch.dtype) -> None:
    g = ill_conditioned(affine, dtype).requires_grad_()
    x = affine.log(g, chart="polar")
    (gradient,) = torch.autograd.grad(x.sum(), g)
    assert x.isfinite().all()
    assert gradient.isfinite().all()
    back = affine.exp(x, chart="polar")
    error = (back - g).flatten(1).norm(dim=1) / g.flatten(1).norm(dim=1)
    assert error.max() < TOLERANCE[dtype]
    assert torch.equal(x[:, -1] == 1, torch.linalg.det(affine.linear(g)) < 0)


def test_coordinates_of_the_inverse_are_the_negatives(affine: Group, dtype: torch.dtype) -> None:
    g = ill_conditioned(affine, dtype)
    eye = affine.identity(dtype=dtype)
    x, y = affine.log_relative(eye, g, "polar"), affine.log_relative(g, eye, "polar")
    proper = x[:, -1] == 0
    assert relative_error(y[proper], -x[proper]).max() < TOLERANCE[dtype]
    norms = affine.block_sq_norms(x).sqrt(), affine.block_sq_norms(y).sqrt()
    assert relative_error(*norms).max() < TOLERANCE[dtype]


def test_an_inverse_rounded_to_the_dtype_is_as_far_as_its_rounding(
    affine: Group, dtype: torch.dtype
) -> None:
    """Rounding g^-1 moves its smallest singular value by eps times the condition number.

    In float32 that is up to 6e-8 * 1e4 on a coordinate of size 10, whoever computes it.
    """
    g = ill_conditioned(affine, dtype)
    x, y = affine.log(g, "polar"), affine.log(affine.inverse(g), "polar")
    condition = torch.linalg.cond(affine.linear(g))
    allowed = 4 * torch.finfo(dtype).eps * (4 + condition)
    norms = affine.block_sq_norms(x).sqrt(), affine.block_sq_norms(y).sqrt()
    assert (relative_error(*norms) < allowed).all()


@pytest.mark.parametrize("n", [2, 3])
def test_polar_chart_is_the_logarithm_on_rigid_motions_and_similarities(
    n: int, dtype: torch.dtype
) -> None:
    affine = lieattn.get_group(f"Aff{n}")
    for name in (f"SE{n}", f"Sim{n}"):
        group = lieattn.get_group(name)
        g = group.random(500, generator=torch.Generator().manual_seed(0), dtype=dtype)
        x, w = affine.log(g, "polar"), group.log(g)
        zeros = torch.zeros(500, affine.dim + 1 - group.dim, dtype=dtype)
        torch.testing.assert_close(x[:, : group.dim], w, atol=4e-6, rtol=4e-6)
        torch.testing.assert_close(x[:, group.dim :], zeros, atol=2e-6, rtol=0)
        assert torch.equal(group.log(g, "polar"), w)


def test_polar_chart_differs_from_the_logarithm_by_third_order(affine: Group) -> None:
    direction = torch.randn(affine.dim, generator=torch.Generator().manual_seed(1)).double()
    gaps = []
    for size in (1e-1, 1e-2):
        g = affine.exp(size * direction)
        gaps.append((affine.log(g, "polar")[:-1] - affine.log(g)).norm())
    assert 900 < gaps[0] / gaps[1] < 1100


def test_polar_exp_reaches_what_the_exponential_does_not() -> None:
    """diag(-1, -2) has no real logarithm, and no exponential equals it."""
    g = torch.diag(torch.tensor([-1.0, -2.0, 1.0], dtype=torch.float64))
    assert Aff2.log(g).isnan().all()
    torch.testing.assert_close(Aff2.exp(Aff2.log(g, "polar"), "polar"), g, atol=1e-14, rtol=0)


def test_parity_may_be_left_out_of_coordinates(affine: Group) -> None:
    x = torch.randn(5, affine.dim, generator=torch.Generator().manual_seed(2)).double()
    g = affine.exp(x, chart="polar")
    zero = torch.zeros(5, 1, dtype=torch.float64)
    assert torch.equal(g, affine.exp(torch.cat((x, zero), -1), chart="polar"))
    assert (torch.linalg.det(affine.linear(g)) > 0).all()
    mirrored = affine.exp(torch.cat((x, zero + 1), -1), chart="polar")
    assert (torch.linalg.det(affine.linear(mirrored)) < 0).all()


def test_singular_matrices_are_reported(affine: Group, dtype: torch.dtype) -> None:
    g = affine.identity(dtype=dtype)
    g[0, 0] = 0
    assert affine.log(g, "polar").isnan().all()
    assert not affine.in_chart(g, chart="polar")
    poses = torch.stack((affine.identity(dtype=dtype), g)).requires_grad_()
    rel = lieattn.relations(affine, poses, poses, chart="polar")
    assert rel.valid.tolist() == [[True, False], [False, False]]
    (gradient,) = torch.autograd.grad(rel.coords.sum(), poses)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("group", [Aff2, Aff3], ids=str)
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_gradients_are_finite_at_repeated_singular_values(
    group: Group, scale: float, dtype: torch.dtype
) -> None:
    n = group.n
    half_turn = torch.diag(torch.tensor([-1.0] * 2 + [1.0] * (n - 2)))
    for linear in (torch.eye(n), half_turn, -torch.eye(n), torch.diag(torch.tensor([2.0] * n))):
        g = group.from_parts(scale * linear.to(dtype), torch.ones(n, dtype=dtype))
        g.requires_grad_()
        x = group.log(g, "polar")
        (gradient,) = torch.autograd.grad(x.sum(), g)
        assert x.isfinite().all()
        assert gradient.isfinite().all()


def test_tiny_relative_poses_keep_their_digits(affine: Group, dtype: torch.dtype) -> None:
    x = torch.randn(20, affine.dim, generator=torch.Generator().manual_seed(3), dtype=dtype)
    for size in (1e-3, 1e-9):
        w = affine.log(affine.exp(size * x.double()), "polar")[:, :-1]
        error = (w - size * x.double()).norm(dim=-1) / size
        assert error.max() < max(20 * size**2, 1e-15 / size)


def test_blocks_end_with_the_parity(affine: Group) -> None:
    blocks = affine.chart_blocks("polar")
    assert blocks[:-1] == affine.blocks
    assert (blocks[-1].name, blocks[-1].dim) == ("parity", 1)
    x = torch.randn(3, affine.dim + 1)
    assert affine.block_sq_norms(x).shape == (3, 5)
    torch.testing.assert_close(affine.from_physical(affine.to_physical(x)), x)
    with pytest.raises(ValueError, match="principal, polar"):
        affine.log(affine.identity(), chart="cayley")


# ---- half turns ------------------------------------------------------------------------------

HALF_TURNS = (
    [[1.0]],
    [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, -1.0, 0], [1.0, 0, 1.0], [-1.0, 2.0, -3.0]],
)
NUDGE = 1e-9


def half_turns(group: Group, extra: float) -> Tensor:
    """Stretched half turns about both ends of axes, and a bit further; half of them mirrored."""
    axes = torch.tensor(HALF_TURNS[group.n - 2], dtype=torch.float64)
    axes = torch.nn.functional.normalize(axes, dim=-1)
    axes = torch.cat([axes, -axes]).repeat(2, 1)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(len(axes), group.dim + 1, generator=generator, dtype=torch.float64) / 2
    r = group.blocks[1].dim
    x[:, group.n : group.n + r] = axes * (math.pi + extra) * math.sqrt(2)
    x[len(axes) // 2 :, -1] = 1
    return group.exp(x, chart="polar")


def beside(group: Group, g: Tensor, margin: float = 0.01) -> Tensor:
    eye = group.identity(dtype=g.dtype).expand_as(g)
    coords, valid = group.relation(eye, g, "polar", margin)
    assert valid.all()
    return coords


def test_with_a_margin_coordinates_of_half_turns_do_not_hang_on_rounding(affine: Group) -> None:
    sides = [affine.log(half_turns(affine, extra), "polar") for extra in (-NUDGE, NUDGE)]
    assert ((sides[0] - sides[1]).norm(dim=-1) > 1).all()
    sides = [beside(affine, half_turns(affine, extra)) for extra in (-NUDGE, NUDGE)]
    torch.testing.assert_close(*sides, atol=100 * NUDGE, rtol=0)


def test_with_a_margin_coordinates_lead_to_the_same_elements(
    affine: Group, dtype: torch.dtype
) -> None:
    moved = 0
    for extra in (-0.009, -NUDGE, NUDGE, 0.009, 0.5):
        g = half_turns(affine, extra).to(dtype)
        w, plain = beside(affine, g), affine.log(g, "polar")
        off = affine.exp(w, "polar") - g
        assert (off.norm() / g.norm()) < TOLERANCE[dtype]
        moved += int(((w - plain).norm(dim=-1) > 1).sum())
        inner = affine.in_chart(g, 0.0101, "polar")
        ulp = 8 * torch.finfo(dtype).eps
        torch.testing.assert_close(w[inner], plain[inner], atol=ulp, rtol=ulp)
        gaps = affine.block_sq_norms(w).sqrt() - affine.block_sq_norms(plain).sqrt()
        assert gaps.abs().max() < 0.1
    assert moved


def test_both_values_at_a_half_turn_have_the_same_norms(affine: Group) -> None:
    g = half_turns(affine, 0.0)
    norms = [affine.block_sq_norms(x) for x in (beside(affine, g), affine.log(g, "polar"))]
    torch.testing.assert_close(*norms, atol=1e-9, rtol=1e-9)


def test_gradients_beside_the_cut_are_those_of_the_inverse_map(affine: Group) -> None:
    g = half_turns(affine, NUDGE)
    w = beside(affine, g)

    def there_and_back(x: Tensor) -> Tensor:
        full = torch.cat((x, w[:, affine.dim :]), -1)
        return beside(affine, affine.exp(full, chart="polar"))[:, : affine.dim]

    x = w[:, : affine.dim]
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(6)).double()
    back, pushed = torch.func.jvp(there_and_back, (x,), (direction,))
    torch.testing.assert_close(back, x, atol=1e-9, rtol=0)
    torch.testing.assert_close(pushed, direction, atol=1e-6, rtol=0)
