"""Poses from what people hold, and back."""

import math

import pytest
import torch

from lieattn import SE2, SE3, SO2, SO3, Aff2, Aff3, Sim2, Sim3


def test_angles_round_trip() -> None:
    theta = torch.linspace(-3, 3, 13)
    torch.testing.assert_close(SO2.to_angle(SO2.from_angle(theta)), theta)


def test_planar_rows_round_trip() -> None:
    rows = torch.randn(7, 3)
    torch.testing.assert_close(SE2.to_xy_theta(SE2.from_xy_theta(rows)), rows)
    g = SE2.from_xy_theta(torch.tensor([1.0, 2.0, math.pi / 2]))
    expected = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(g, expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("order", ["xyzw", "wxyz"])
def test_quaternions_round_trip_in_both_orders(order: str) -> None:
    q = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    t = torch.randn(50, 3, dtype=torch.float64)
    g = getattr(SE3, f"from_quaternion_{order}")(3.0 * q, t)  # any length will do
    SE3.check(g)
    back, t_back = getattr(SE3, f"to_quaternion_{order}")(g)
    unit = q / q.norm(dim=-1, keepdim=True)
    scalar = unit[:, order.index("w")]
    torch.testing.assert_close(back, unit * scalar.sign()[:, None])
    torch.testing.assert_close(t_back, t)
    torch.testing.assert_close(getattr(SO3, f"from_quaternion_{order}")(q), SE3.linear(g))
    torch.testing.assert_close(getattr(SO3, f"to_quaternion_{order}")(SE3.linear(g)), back)


def test_quaternion_orders_mean_what_they_say() -> None:
    quarter_about_z = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    s = math.sqrt(0.5)
    for R in (
        SO3.from_quaternion_xyzw(torch.tensor([0.0, 0.0, s, s])),
        SO3.from_quaternion_wxyz(torch.tensor([s, 0.0, 0.0, s])),
    ):
        torch.testing.assert_close(R, quarter_about_z, atol=1e-6, rtol=0)


@pytest.mark.parametrize("group", [SE2, SE3, Sim2, Sim3, Aff2, Aff3], ids=str)
def test_parts_and_short_matrices(group) -> None:
    g = group.random(5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(group.from_parts(group.linear(g), group.translation(g)), g)
    assert torch.equal(group.from_matrix(g[..., : group.n, :]), g)
    assert group.from_matrix(g) is g
    with pytest.raises(ValueError, match="linear part must have shape"):
        group.from_parts(g, group.translation(g))
    with pytest.raises(ValueError, match="translation must have shape"):
        group.from_parts(group.linear(g), g[..., 0, 0])


def test_parts_broadcast() -> None:
    g = SE3.from_parts(torch.eye(3), torch.zeros(2, 5, 3))
    assert g.shape == (2, 5, 4, 4)


def test_similarity_scale() -> None:
    g = Sim3.from_parts(2.5 * SO3.random(4), torch.zeros(4, 3))
    torch.testing.assert_close(Sim3.scale(g), torch.full((4,), 2.5))


def test_backbone_frames() -> None:
    """Ideal geometry of a residue: C on the x axis, N in the upper xy plane."""
    n = torch.tensor([-0.525, 1.363, 0.0])
    ca, c = torch.zeros(3), torch.tensor([1.526, 0.0, 0.0])
    torch.testing.assert_close(SE3.from_backbone(n, ca, c), torch.eye(4))
    pose = SE3.random(6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    atoms = [(SE3.linear(pose) @ atom.double()) + SE3.translation(pose) for atom in (n, ca, c)]
    torch.testing.assert_close(SE3.from_backbone(*atoms), pose)


def test_atoms_on_a_line_define_no_frame() -> None:
    n, ca, c = torch.tensor([-1.0, 0, 0]), torch.zeros(3), torch.tensor([1.0, 0, 0])
    with pytest.raises(ValueError, match="NaN"):
        SE3.check(SE3.from_backbone(n, ca, c))
    with pytest.raises(ValueError, match=r"positions of CA must have shape"):
        SE3.from_backbone(n, torch.zeros(2), c)


def test_physical_coordinates_are_angles_and_logarithms() -> None:
    turn = SO3.exp(SO3.from_physical(torch.tensor([0.0, 0.0, 0.5])))
    torch.testing.assert_close(SO2.to_angle(turn[:2, :2]), torch.tensor(0.5))
    doubled = Aff3.from_parts(2.0 * torch.eye(3), torch.zeros(3))
    physical = Aff3.to_physical(Aff3.log(doubled))
    torch.testing.assert_close(physical[6], torch.tensor(math.log(2.0)))
    assert Aff3.log(doubled)[6].item() == pytest.approx(math.sqrt(3) * math.log(2))


def test_margin_is_an_angle() -> None:
    for angle in (0.5, 3.0):
        turn = SO3.exp(SO3.from_physical(torch.tensor([0.0, angle, 0.0], dtype=torch.float64)))
        room = math.pi - angle
        for group, g in (
            (SO3, turn),
            (SE3, SE3.from_parts(turn, torch.ones(3))),
            (Aff3, Aff3.from_parts(3.0 * turn, torch.ones(3))),
            (Sim3, Sim3.from_parts(3.0 * turn, torch.ones(3))),
        ):
            assert group.in_chart(g, margin=room - 1e-6)
            assert not group.in_chart(g, margin=room + 1e-6)


def test_an_exact_half_turn_is_outside_but_has_a_logarithm() -> None:
    half = torch.diag(torch.tensor([-1.0, -1.0, 1.0]))
    assert not SO3.in_chart(half)
    torch.testing.assert_close(SO3.to_physical(SO3.log(half)).abs(), torch.tensor([0, 0, math.pi]))
    assert not Aff3.in_chart(Aff3.from_parts(half, torch.zeros(3)))
