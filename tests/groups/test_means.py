"""Means of poses: the fixed point, its laws, its gradients, and what has none."""

import mpmath
import pytest
import torch
from torch import Tensor

import exact
from every_group import ALL_GROUPS, SIMILAR
from lieattn import SE3, SO2, SO3, T3, Aff2, Aff3, Group, product

NAMES = [name for name in ALL_GROUPS if not name.startswith("generic")]
HALF = torch.pi


def cloud(group: Group, *batch: int, spread: float = 0.3) -> Tensor:
    """Poses around a random one."""
    generator = torch.Generator().manual_seed(5)
    centre = group.random(generator=generator, dtype=torch.float64)
    x = spread * torch.randn(*batch, group.dim, generator=generator, dtype=torch.float64)
    return group.retract(centre, x)


def pull(group: Group, m: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """sum_i w_i log(m^-1 g_i), zero at the mean."""
    return (w[..., None] * group.local(m[..., None, :, :], g)).sum(-2)


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_two_is_half_way_as_at_fifty_digits(name: str) -> None:
    """With weights 1 and 3 the mean of the identity and exp(x) is exp(3 x / 4)."""
    group = ALL_GROUPS[name]
    w = torch.tensor([1.0, 3.0], dtype=torch.float64)
    for case, x in exact.coordinates(group).items():
        g = torch.stack((group.identity(dtype=torch.float64), group.exp(x)))
        with mpmath.workdps(exact.DIGITS):
            truth = exact.rounded(exact.exp(group, exact.exact(x) * mpmath.mpf("0.75")))
        if case == "half turn" and group.log(g[1]).isnan().any():
            # A logarithm by roots gives up here; rounding decides whether those of a mean do.
            try:
                group.mean(g, w)
            except ValueError as error:
                assert "no unique mean" in str(error)  # noqa: PT017
                continue
        condition = group.left_jacobian_inverse(x).norm() * torch.linalg.cond(g[1])
        if case == "half turn" and group.charts == ("principal",):
            condition = condition * 1e4  # roots lose the square of the distance to the cut
        assert (group.mean(g, w) - truth).norm() <= 1e-10 * condition * truth.norm(), case


def test_the_mean_is_the_fixed_point(any_group: Group) -> None:
    g = cloud(any_group, 3, 6)
    w = torch.rand(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    m = any_group.mean(g, w)
    any_group.check(m)
    assert pull(any_group, m, g, w / w.sum(-1, keepdim=True)).abs().max() < 1e-12
    torch.testing.assert_close(any_group.mean(g), any_group.mean(g, torch.ones(6).double()))
    torch.testing.assert_close(any_group.mean(g, 5 * w), m)


def test_the_mean_moves_with_poses_from_both_sides(any_group: Group) -> None:
    g, G = cloud(any_group, 5), any_group
    a, b = G.random(2, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    moved = G.compose(G.compose(a, G.mean(g)), b)
    torch.testing.assert_close(G.mean(G.compose(G.compose(a, g), b)), moved, rtol=1e-8, atol=1e-8)
    inverse = G.inverse(G.mean(g))
    torch.testing.assert_close(G.mean(G.inverse(g)), inverse, rtol=1e-8, atol=1e-8)


def test_gradients_are_those_of_the_fixed_point(any_group: Group) -> None:
    if any_group.dim > 9:
        pytest.skip("the same code, and minutes of finite differences")
    G, x = any_group, 0.3 * torch.randn(3, any_group.dim, dtype=torch.float64)
    centre = G.random(generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    w = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64, requires_grad=True)

    def mean(x: Tensor, w: Tensor) -> Tensor:
        return G.mean(G.retract(centre, x), w)

    assert torch.autograd.gradcheck(mean, (x.requires_grad_(), w), fast_mode=True)
    zero = torch.zeros_like(x, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: mean(x, w.detach()), zero, fast_mode=True)


def test_a_weight_of_zero_leaves_a_pose_out(any_group: Group) -> None:
    g = cloud(any_group, 5)
    damaged = g.clone()
    damaged[1] = torch.nan
    damaged[3] = 0
    keep = torch.tensor([True, False, True, False, True])
    damaged.requires_grad_()
    m = any_group.mean(damaged, keep)
    torch.testing.assert_close(m, any_group.mean(g[keep]))
    (gradient,) = torch.autograd.grad(m.sum(), damaged)
    assert gradient.isfinite().all()
    assert (gradient[~keep] == 0).all()


def test_weights_and_poses_broadcast() -> None:
    g = cloud(SE3, 6)
    w = torch.rand(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    m = SE3.mean(g, w)
    assert m.shape == (4, 4, 4)
    torch.testing.assert_close(m[2], SE3.mean(g, w[2]))
    assert SE3.mean(g.float()).dtype == torch.float32
    torch.testing.assert_close(SE3.mean(g.float()).double(), SE3.mean(g), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(SE3.mean(g[:1]), g[0])


def test_an_outlier_and_a_wide_spread_are_no_obstacle() -> None:
    turns = torch.cat((torch.zeros(20), torch.tensor([0.95 * HALF]))).double()
    angle = SO2.to_angle(SO2.mean(SO2.from_angle(turns.flip(0))))
    torch.testing.assert_close(angle, turns.mean())
    wide = cloud(SO3, 50, 40, spread=0.8)
    w = torch.full((40,), 1 / 40).double()
    assert pull(SO3, SO3.mean(wide), wide, w).abs().max() < 1e-10
    far = T3.from_vector(1e8 * torch.randn(9, 3, dtype=torch.float64))
    torch.testing.assert_close(T3.mean(far), far.mean(0))


@pytest.mark.parametrize("group", [*SIMILAR, product(T3, SO2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_poses_half_a_turn_apart_have_no_mean(group: Group, dtype: torch.dtype) -> None:
    x = torch.zeros(group.dim, dtype=dtype)
    x[group.coordinates_of("rotation")[-1]] = HALF * 2**0.5
    g = torch.stack((group.identity(dtype=dtype), group.exp(x)))
    with pytest.raises(ValueError, match=r"poses have no unique mean: some are half a turn apart"):
        group.mean(g)
    with pytest.raises(ValueError, match=r"^set \[1\] of .* no unique mean"):
        group.mean(torch.stack((g[:1].expand_as(g), g)))
    # A little less than half a turn is on one side.
    near = torch.stack((g[0], group.exp(0.99 * x)))
    torch.testing.assert_close(group.mean(near), group.exp(0.495 * x), atol=1e-5, rtol=1e-5)


def test_three_poses_a_third_of_a_turn_apart_have_no_mean() -> None:
    turns = torch.tensor([0.0, 2.0, 4.0]) * HALF / 3
    with pytest.raises(ValueError, match="no unique mean"):
        SO2.mean(SO2.from_angle(turns))


@pytest.mark.parametrize("group", [Aff2, Aff3], ids=str)
def test_mirror_images_have_no_mean(group: Group) -> None:
    g = group.identity(2)
    g[1, 0, 0] = -1
    with pytest.raises(ValueError, match=r"no unique mean: some are off the chart.*weight of 0"):
        group.mean(g)


def test_what_is_no_set_of_weighted_poses() -> None:
    g = SE3.identity(3)
    with pytest.raises(ValueError, match=r"\[\.\.\., N, 4, 4\] with N >= 1, got \[0, 4, 4\]"):
        SE3.mean(g[:0])
    with pytest.raises(ValueError, match=r"N >= 1, got \[4, 4\]"):
        SE3.mean(g[0])
    with pytest.raises(ValueError, match=r"broadcast to \[3\], one a pose, got \[2\]"):
        SE3.mean(g, torch.ones(2))
    with pytest.raises(ValueError, match=r"weights\[1\] is -1; weights must be finite and not neg"):
        SE3.mean(g, torch.tensor([1.0, -1.0, 3.0]))
    with pytest.raises(ValueError, match=r"^poses\[1\] holds NaN or infinity; a weight of 0"):
        SE3.mean(torch.stack((g[0], torch.nan * g[1], g[2])))
    with pytest.raises(ValueError, match=r"weights\[2\] is nan"):
        SE3.mean(g, torch.tensor([1.0, 1.0, torch.nan]))
    with pytest.raises(ValueError, match=r"all weights of a set are zero"):
        SE3.mean(g, torch.zeros(3))


def test_means_where_values_cannot_be_read(any_group: Group) -> None:
    g = cloud(any_group, 2, 4)
    torch.testing.assert_close(torch.func.vmap(any_group.mean)(g), any_group.mean(g))


def test_best_effort_where_values_cannot_be_read_is_finite() -> None:
    half = torch.stack((SO3.identity(), torch.diag(torch.tensor([1.0, -1.0, -1.0]))))
    weights = torch.tensor([[1.0, 1.0], [0.0, 0.0], [torch.nan, 1.0]])
    assert torch.func.vmap(lambda w: SO3.mean(half, w))(weights).isfinite().all()


def test_matrices_outside_the_group_are_named_where_there_is_no_mean() -> None:
    bad = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"poses\[0\]"):
        SE3.mean(bad)
