"""Messages: what was wrong, where, by how much, what was expected, what mends it."""

import pytest
import torch
from torch import Tensor

import lieattn
from every_group import SIMILAR, WITH_PARITY
from lieattn import SE2, SE3, SO2, SO3, Aff2, Aff3, Group, Sim2, Sim3


def batch(group: Group, dtype: torch.dtype = torch.float64) -> Tensor:
    return group.random(3, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_good_poses_pass(any_group: Group, dtype: torch.dtype) -> None:
    any_group.check(batch(any_group, dtype))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_entries_are_located(any_group: Group, value: float) -> None:
    g = batch(any_group)
    g[1, 2, 0, 0] = g[2, 3, 0, 0] = value
    with pytest.raises(ValueError, match=r"poses\[1, 2\] \(2 of 12 are\) holds NaN or infinity"):
        any_group.check(g)


@pytest.mark.parametrize("group", SIMILAR, ids=str)
def test_a_sheared_rotation_is_measured_and_project_offered(group: Group) -> None:
    g = batch(group)
    g[0, 3, 0, 1] += 0.25
    with pytest.raises(ValueError, match=r"poses\[0, 3\] is not in .*not orthogonal.*project"):
        group.check(g)
    group.check(group.project(g))


@pytest.mark.parametrize("group", SIMILAR, ids=str)
def test_a_reflection_is_called_one(group: Group) -> None:
    g = batch(group)
    g[2, 0, :, 0] *= -1
    with pytest.raises(ValueError, match=r"poses\[2, 0\] .*reflection \(negative determinant\)"):
        group.check(g)
    if group is not Sim2:  # in the plane every similarity is as far from a reflection as zero is
        group.check(group.project(g))


@pytest.mark.parametrize("group", WITH_PARITY, ids=str)
def test_a_singular_frame_is_called_one(group: Group) -> None:
    g = batch(group)
    g[1, 1, :, 0] = g[1, 1, :, 1]
    with pytest.raises(ValueError, match=r"poses\[1, 1\] .*singular, condition number"):
        group.check(g)
    g = batch(group)
    g[0, 0, :, 0] *= -1  # a mirrored frame is an affine frame
    group.check(g)


def test_a_zero_similarity_is_singular() -> None:
    g = batch(Sim3)
    g[0, 1, :3, :3] = 0
    with pytest.raises(ValueError, match=r"poses\[0, 1\] .*singular"):
        Sim3.check(g)


@pytest.mark.parametrize("group", [SE2, SE3, Aff2, Aff3], ids=str)
def test_a_wrong_last_row_is_measured(group: Group) -> None:
    g = batch(group).mT.contiguous()
    with pytest.raises(ValueError, match=r"poses\[0, 0\].*last row misses .* by .*\.mT first"):
        group.check(g)


def test_names_can_be_given() -> None:
    with pytest.raises(ValueError, match=r"camera poses\[0\] holds NaN"):
        SE3.check(torch.full((1, 4, 4), torch.nan), name="camera poses")


def test_one_pose_has_no_index() -> None:
    with pytest.raises(ValueError, match=r"^poses is not in SO\(2\)"):
        SO2.check(torch.ones(2, 2))


@pytest.mark.parametrize(
    ("group", "shape", "message"),
    [
        (SE2, (5, 3), r"\[\.\.\., 3, 3\], got \[5, 3\]\. For \(x, y, theta\) rows use SE2.from_xy"),
        (SE2, (5, 2, 3), r"from_matrix"),
        (SE3, (5, 7), r"SE3.from_quaternion_xyzw\(q, t\)"),
        (SE3, (5, 3, 4), r"For \[\.\.\., 3, 4\] matrices use SE3.from_matrix\(poses\)"),
        (SE3, (5, 3, 3), r"from_parts\(A, t\)"),
        (SO3, (5, 4), r"SO3.from_quaternion_xyzw or SO3.from_quaternion_wxyz"),
        (SO3, (5, 2, 3), r"rotation vectors use SO3.exp"),
        (SO2, (5,), r"SO2.from_angle"),
        (Aff3, (2, 2), r"must have shape \[\.\.\., 4, 4\], got \[2, 2\]"),
    ],
)
def test_wrong_shapes_name_the_constructor(
    group: Group, shape: tuple[int, ...], message: str
) -> None:
    for operation in (group.check, group.log, group.in_chart, group.inverse, group.project):
        with pytest.raises(ValueError, match=message):
            operation(torch.zeros(shape))


def test_wrong_types_and_dtypes(any_group: Group) -> None:
    m = any_group.matrix_size
    with pytest.raises(TypeError, match=r"torch.Tensor, got list.*as_tensor"):
        any_group.check([[1.0]])
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        with pytest.raises(ValueError, match=r"must be float32 or float64, got .*\.float\(\)"):
            any_group.log(torch.eye(m, dtype=dtype))
        with pytest.raises(ValueError, match="float32 or float64"):
            any_group.exp(torch.zeros(any_group.dim, dtype=dtype))


def test_wrong_coordinates_say_what_they_consist_of() -> None:
    with pytest.raises(ValueError, match=r"\[\.\.\., 6\], got \[4, 4\]: translation \(3\) \+ rot"):
        SE3.exp(torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"\[\.\.\., 6\] or \[\.\.\., 7\], got \[5\]"):
        Aff2.exp(torch.zeros(5), chart="polar")
    with pytest.raises(ValueError, match=r"coordinates must have shape \[\.\.\., 6\], got \[9\]"):
        SE3.block_sq_norms(torch.zeros(9))
    with pytest.raises(ValueError, match=r"\[\.\.\., 6\], got \[\]"):
        SE3.exp(torch.tensor(1.0))


def test_unknown_groups_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown group 'SE4'; known are SO2, SE2, SO3, SE3"):
        lieattn.get_group("SE4")
    assert lieattn.get_group("se(3)") is SE3
    assert lieattn.get_group("Aff(2)") is Aff2


def test_unknown_charts_list_the_known_ones(any_group: Group) -> None:
    with pytest.raises(ValueError, match="principal"):
        any_group.log(any_group.identity(), chart="nearest")


def test_contains_is_where_check_finds_nothing(group: Group) -> None:
    g = group.random(4, dtype=torch.float64)
    g[1, 0, 0] = torch.nan
    g[2] = 0
    assert group.contains(g).tolist() == [True, False, False, True]
    assert group.contains(group.identity()).item()
