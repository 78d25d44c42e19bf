"""Poses from what people hold, and back."""

import math
import sys

import pytest
import torch

from lieattn import SE2, SE3, SO2, SO3, T2, T3, Aff2, Aff3, Sim2, Sim3


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


def test_two_columns_round_trip_and_any_two_vectors_will_do() -> None:
    g = SE3.random(20, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    R, t = SE3.linear(g), SE3.translation(g)
    torch.testing.assert_close(SO3.from_6d(SO3.to_6d(R)), R)
    assert torch.equal(SO3.to_6d(R)[:, 3:], R[:, :, 1])
    torch.testing.assert_close(SE3.from_6d(*SE3.to_6d(g)), g)
    # The first vector keeps its direction, the second its side of it.
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    made = SO3.from_6d(x)
    SO3.check(made)
    torch.testing.assert_close(made[..., 0], x[:, :3] / x[:, :3].norm(dim=-1, keepdim=True))
    assert ((made[..., 1] * x[:, 3:]).sum(-1) > 0).all()
    assert ((made[..., 2] * x[:, 3:]).sum(-1).abs() < 1e-12).all()
    assert torch.autograd.gradcheck(SO3.from_6d, x[:2].requires_grad_())
    with pytest.raises(ValueError, match=r"first two columns of rotations must have shape"):
        SE3.from_6d(torch.zeros(2, 5), t)
    with pytest.raises(ValueError, match="NaN"):
        SO3.check(SO3.from_6d(torch.zeros(6)))
    nearly_parallel = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0 + 1e-6])
    SO3.check(SO3.from_6d(nearly_parallel))


def test_scipy_rotations_round_trip() -> None:
    transform = pytest.importorskip("scipy.spatial.transform")
    known = transform.Rotation.random(7, random_state=0)
    R = SO3.from_scipy(known, dtype=torch.float64)
    torch.testing.assert_close(R, torch.from_numpy(known.as_matrix()))
    assert SO3.from_scipy(known).dtype == torch.get_default_dtype()
    assert (SO3.to_scipy(R).inv() * known).magnitude().max() < 1e-14
    g = SE3.from_scipy(known, torch.ones(7, 3), dtype=torch.float64)
    rotation, t = SE3.to_scipy(g.reshape(7, 1, 4, 4))
    assert (rotation.inv() * known).magnitude().max() < 1e-14
    assert t.shape == (7, 1, 3)
    single = SO3.to_scipy(SO3.from_scipy(known[0]).requires_grad_())
    assert single.as_matrix().shape == (3, 3)
    with pytest.raises(TypeError, match=r"must be a scipy.spatial.transform.Rotation, got Tensor"):
        SO3.from_scipy(R)


def test_without_scipy_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    for convert in (SO3.from_scipy, SO3.to_scipy):
        with pytest.raises(ImportError, match="pip install scipy"):
            convert(torch.eye(3))


def test_dual_quaternions_round_trip_and_multiply() -> None:
    g, h = SE3.random(2, 20, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    p, q = SE3.to_dual_quaternion(g), SE3.to_dual_quaternion(h)
    torch.testing.assert_close(SE3.from_dual_quaternion(p), g)
    torch.testing.assert_close(SE3.from_dual_quaternion(-3 * p), g)
    assert (p[..., :4] * p[..., 4:]).sum(-1).abs().max() < 1e-14
    along = torch.cat((p[..., :4], p[..., 4:] + 0.5 * p[..., :4]), dim=-1)
    torch.testing.assert_close(SE3.from_dual_quaternion(along), g)
    real = hamilton(p[..., :4], q[..., :4])
    dual = hamilton(p[..., :4], q[..., 4:]) + hamilton(p[..., 4:], q[..., :4])
    product = SE3.from_dual_quaternion(torch.cat((real, dual), dim=-1))
    torch.testing.assert_close(product, SE3.compose(g, h))
    with pytest.raises(ValueError, match=r"dual quaternions .* must have shape \[\.\.\., 8\]"):
        SE3.from_dual_quaternion(torch.zeros(4))


def hamilton(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    (a, b, c, d), (e, f, g, h) = p.unbind(-1), q.unbind(-1)
    return torch.stack(
        (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ),
        dim=-1,
    )


def test_cameras_of_opencv_and_opengl_see_the_same() -> None:
    camera = SE3.random(5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    other = SE3.opencv_to_opengl(camera)
    SE3.check(other)
    assert torch.equal(SE3.opengl_to_opencv(other), camera)
    assert torch.equal(SE3.translation(other), SE3.translation(camera))
    p = torch.randn(5, 3, dtype=torch.float64)
    seen = SE3.to_local(camera, p)  # x right, y down, z ahead
    flipped = seen * torch.tensor([1.0, -1.0, -1.0])
    torch.testing.assert_close(SE3.to_local(other, p), flipped)


def test_points_are_translations() -> None:
    p = torch.randn(4, 3)
    assert torch.equal(T3.to_vector(T3.from_vector(p)), p)
    assert torch.equal(T2.exp(p[:, :2]), T2.from_vector(p[:, :2]))
    with pytest.raises(ValueError, match=r"T\(3\) vectors must have shape \[\.\.\., 3\], got"):
        T3.from_vector(torch.zeros(4, 2))
    with pytest.raises(ValueError, match=r"For points \[\.\.\., 3\] use T3.from_vector\(points\)"):
        T3.log(torch.zeros(4, 5, 3))
    with pytest.raises(ValueError, match=r"linear part misses I by 0.5\. T2.project\(g\) resets"):
        T2.check(1.5 * torch.eye(3) - torch.diag(torch.tensor([0.0, 0.0, 0.5])))
