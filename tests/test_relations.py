"""Pairwise invariants and their validity."""

import pytest
import torch

import lieattn
from lieattn import SE3, Aff2, Group, relations


def test_pairs_are_those_of_the_paper(any_group: Group) -> None:
    q = any_group.random(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    k = any_group.random(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rel = relations(any_group, q, k)
    assert rel.coords.shape == (2, 3, 4, any_group.dim)
    assert rel.valid.shape == (2, 3, 4)
    for b, i, j in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
        w = any_group.log(any_group.inverse(q[b, i]) @ k[b, j])
        expected = w if rel.valid[b, i, j] else torch.zeros_like(w)
        torch.testing.assert_close(rel.coords[b, i, j], expected, atol=1e-9, rtol=1e-9)


def test_set_with_itself_is_antisymmetric_with_zero_diagonal(group: Group) -> None:
    g = group.random(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coords, valid = relations(group, g, g)
    assert (coords.diagonal(dim1=0, dim2=1) == 0).all()
    assert torch.equal(valid, valid.mT)
    both = valid[..., None].expand_as(coords)
    torch.testing.assert_close(coords[both], -coords.transpose(0, 1)[both], atol=1e-9, rtol=0)


def test_pairs_off_the_chart_are_masked_and_leave_gradients_finite() -> None:
    mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    poses = torch.stack((torch.eye(3), mirror, 2 * mirror + 0.1)).requires_grad_()
    rel = relations(Aff2, poses, poses)
    assert rel.valid[0].tolist() == [True, False, False]
    assert (rel.coords[0, 1] == 0).all()
    (gradient,) = torch.autograd.grad(rel.coords.square().sum(), poses)
    assert gradient.isfinite().all()
    # A pair that is masked pulls on nothing.
    (alone,) = torch.autograd.grad(relations(Aff2, poses, poses).coords[0, 1].sum(), poses)
    assert (alone == 0).all()


def test_validity_is_chart_membership(group: Group) -> None:
    g = group.random(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    relative = group.relative(g[:, None], g[None])
    assert torch.equal(relations(group, g, g).valid, group.in_chart(relative))


@pytest.mark.parametrize("chart", ["principal", "polar"])
@pytest.mark.parametrize("margin", [0.01, 0.3])
def test_a_margin_leaves_out_what_is_close_to_the_cut_of_charts_that_are_not_global(
    group: Group, chart: str, margin: float
) -> None:
    g = group.random(60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    relative = group.relative(g[:, None], g[None])
    valid = relations(group, g, g, chart, margin=margin).valid
    inside = group.in_chart(relative, margin, chart)
    if group.coordinates_of("rotation"):  # of others nothing is close to a cut
        assert margin < 0.1 or not inside.all()
    assert torch.equal(valid, torch.ones_like(inside) if group.is_global(chart) else inside)


def test_a_margin_holds_for_lists_too() -> None:
    g = lieattn.SO2.from_angle(torch.tensor([0.0, 3.12, 1.0]))
    everyone = torch.arange(3).expand(3, 3)
    listed = lieattn.neighbour_relations(lieattn.SO2, g, g, everyone, margin=0.1)
    assert torch.equal(listed.valid, relations(lieattn.SO2, g, g, margin=0.1).valid)
    assert not listed.valid[0, 1]


def test_nearly_coincident_poses_keep_their_digits() -> None:
    """From the difference of the poses: the product would keep three digits of seven."""
    g = SE3.random(generator=torch.Generator().manual_seed(0))
    step = 1e-4 * torch.tensor([1.0, -2.0, 0.5, 0.3, 0.2, -0.7])
    h = SE3.compose(g, SE3.exp(step))
    exact = SE3.log_relative(g.double(), h.double())
    error = (SE3.log_relative(g, h) - exact).norm() / exact.norm()
    assert error < 1e-6


def test_empty_sets() -> None:
    rel = relations(SE3, torch.zeros(0, 4, 4), torch.zeros(5, 4, 4))
    assert rel.coords.shape == (0, 5, 6)


def test_a_single_pose_is_not_a_set() -> None:
    with pytest.raises(ValueError, match=r"query poses must be a set .*log_relative"):
        relations(SE3, torch.eye(4), torch.eye(4)[None])
    with pytest.raises(ValueError, match=r"key poses must have shape \[\.\.\., 4, 4\]"):
        relations(SE3, torch.eye(4)[None], torch.zeros(5, 3, 3))


def test_registry_is_the_package_called() -> None:
    assert lieattn.available_groups()["SE3"] is SE3
    assert lieattn.groups.SE3 is SE3
