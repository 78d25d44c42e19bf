"""Points moved by poses, and steps on the group."""

import mpmath
import pytest
import torch

import exact
from algebras import HEISENBERG
from every_group import ALL_GROUPS
from lieattn import SE2, SE3, SO3, Aff3, Group, matrix_group, product

NAMES = [name for name in ALL_GROUPS if not name.startswith("generic")]


def homogeneous(group: Group, points: torch.Tensor) -> torch.Tensor:
    """Vectors `[..., m]` that matrices move as `act` moves points."""
    parts = []
    for factor in getattr(group, "factors", (group,)):
        own, points = points[..., : factor.point_dim], points[..., factor.point_dim :]
        ones = torch.ones_like(own[..., :1])
        parts += [own] if factor.point_dim == factor.matrix_size else [own, ones]
    return torch.cat(parts, dim=-1)


@pytest.mark.parametrize("name", NAMES)
def test_points_move_as_at_fifty_digits(name: str) -> None:
    group = ALL_GROUPS[name]
    p = torch.randn(group.point_dim, generator=torch.Generator().manual_seed(0)).double()
    for case, x in exact.coordinates(group).items():
        with mpmath.workdps(exact.DIGITS):
            g = exact.exp(group, exact.exact(x))
            v = exact.exact(homogeneous(group, p)[:, None])
            moved, back = exact.rounded(g * v)[:, 0], exact.rounded(mpmath.inverse(g) * v)[:, 0]
        pose = group.exp(x)
        condition = torch.linalg.cond(pose) * pose.norm()
        found = homogeneous(group, group.act(pose, p))
        local = homogeneous(group, group.to_local(pose, p))
        assert (found - moved).norm() <= 1e-13 * condition * (1 + moved.norm()), case
        assert (local - back).norm() <= 1e-13 * condition * (1 + back.norm()), case


def test_acting_is_acting_in_turn(any_group: Group) -> None:
    G = any_group
    g, h = G.random(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = torch.randn(5, G.point_dim, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(G.act(G.compose(g, h), p), G.act(g, G.act(h, p)))
    torch.testing.assert_close(G.to_local(g, G.act(g, p)), p)


def test_batches_of_poses_and_points_broadcast(any_group: Group) -> None:
    G = any_group
    g = G.random(4, generator=torch.Generator().manual_seed(0))
    p = torch.randn(7, G.point_dim)
    many = G.act(g[:, None], p)
    assert many.shape == (4, 7, G.point_dim) == G.to_local(g[:, None], p).shape
    torch.testing.assert_close(many[2, 3], G.act(g[2], p[3]))
    assert G.act(g.double(), p[:1]).dtype == torch.float64
    torch.testing.assert_close(torch.func.vmap(G.act)(g, p[:4]), G.act(g, p[:4]))
    torch.testing.assert_close(torch.func.vmap(G.to_local)(g, p[:4]), G.to_local(g, p[:4]))


def test_a_far_origin_costs_no_digits() -> None:
    far = SE3.from_parts(SO3.random(), torch.tensor([1e6, -1e6, 1e6]))
    p = SE3.translation(far) + torch.tensor([1.0, 2.0, 3.0])  # exact in float32
    expected = SE3.linear(far).mT @ torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(SE3.to_local(far, p), expected)


def test_what_poses_act_on() -> None:
    assert [G.point_dim for G in (SE2, SE3, SO3, Aff3)] == [2, 3, 3, 3]
    assert ALL_GROUPS["SL3"].point_dim == 3
    assert ALL_GROUPS["SE_2(3)"].point_dim == 4  # its last row is (0, ..., 0, 1)
    assert matrix_group("H", HEISENBERG).point_dim == 2
    assert product(SE3, SO3).point_dim == 6


def test_points_of_another_size_are_refused() -> None:
    g = SE3.random(4)
    with pytest.raises(ValueError, match=r"^points for SE\(3\) must have shape \[\.\.\., 3\], got"):
        SE3.act(g, torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"do not broadcast; for many points a pose use act\(g"):
        SE3.to_local(g, torch.zeros(7, 3))
    with pytest.raises(ValueError, match="float32 or float64"):
        SE3.act(g, torch.zeros(4, 3, dtype=torch.int64))


def test_gradients_of_actions(any_group: Group) -> None:
    G = any_group
    g = G.random(2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = torch.randn(2, G.point_dim, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(G.act, (g, p))
    assert torch.autograd.gradcheck(G.to_local, (g, p))
    x = torch.zeros(G.dim, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: G.act(G.exp(x), p.detach()), x)


def test_retract_and_local_are_inverse(any_group: Group) -> None:
    G = any_group
    g = G.random(5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = 0.3 * torch.randn(5, G.dim, generator=torch.Generator().manual_seed(1)).double()
    for chart in G.charts:
        h = G.retract(g, x, chart=chart)
        torch.testing.assert_close(G.local(g, h, chart=chart)[..., : G.dim], x)
    torch.testing.assert_close(G.retract(g, x), G.compose(g, G.exp(x)))
