"""Products: factor by factor what their factors do, in models and checkpoints too."""

import copy
import pickle
from pathlib import Path

import pytest
import torch

import lieattn as la
from every_group import PRODUCTS

products = pytest.mark.parametrize("group", PRODUCTS, ids=str)
ARM = la.product(la.SE3, la.SO2)


def test_sizes_names_and_blocks() -> None:
    assert (ARM.name, str(ARM), ARM.dim, ARM.matrix_size) == ("SE3 x SO2", "SE(3) x SO(2)", 7, 6)
    assert [(b.name, b.dim, b.kind) for b in ARM.blocks] == [
        ("translation", 3, "translation"),
        ("rotation", 3, "rotation"),
        ("rotation2", 1, "rotation"),
    ]
    double = la.product(la.Aff2, la.Aff2)
    names = [block.name for block in double.chart_blocks("polar")]
    first = ["translation", "rotation", "scale", "shear"]
    assert names == [*first, *(f"{name}2" for name in first), "parity", "parity2"]
    custom = la.matrix_group("Planes", torch.block_diag(*[la.SO2.basis()[0]] * 2)[None])
    assert la.product(custom, la.SO2).charts == ("principal",)


def test_products_of_products_are_flat_and_one_object_each() -> None:
    nested = la.product(la.T2, la.product(la.SE3, la.SO2))
    assert nested.factors == (la.T2, la.SE3, la.SO2)
    assert la.product(la.T2, la.SE3, la.SO2) is nested
    assert la.product(la.SE3) is la.SE3
    for twin in (copy.deepcopy(ARM), pickle.loads(pickle.dumps(ARM))):
        assert twin is ARM


def test_names_are_found() -> None:
    assert la.get_group("SE3 x SO2") is ARM
    assert la.get_group("se(3) x so(2)") is ARM
    for name in ("SE3 x SO9", "SE3 x ", "SE3xSO2", " x "):
        with pytest.raises(ValueError, match="unknown group"):
            la.get_group(name)


def test_what_is_no_product() -> None:
    with pytest.raises(ValueError, match=r"needs at least one group, such as product\(SE3, SO2\)"):
        la.product()
    with pytest.raises(TypeError, match=r"must be groups, got str; use get_group\(name\)"):
        la.product(la.SE3, "SO2")
    with pytest.raises(ValueError, match=r"SE\(3\) x SO\(2\) has 2 factors, got 1 parts"):
        ARM.join(la.SE3.random())
    with pytest.raises(ValueError, match=r"SO\(2\) poses must have shape"):
        ARM.join(la.SE3.random(), la.SO3.random())


@products
def test_each_factor_does_its_own(group: la.Group) -> None:
    """To the bit: nothing goes through the logarithm of the whole matrix."""
    draw = torch.Generator().manual_seed(0)
    a, b = (group.random(5, generator=draw, dtype=torch.float64) for _ in range(2))
    for chart in group.charts:
        w = group.log_relative(a, b, chart)
        own = [
            factor.log_relative(x, y, chart)
            for factor, x, y in zip(group.factors, group.split(a), group.split(b), strict=True)
        ]
        heads = [x[..., : f.dim] for f, x in zip(group.factors, own, strict=True)]
        whole = ~w.isnan().any(-1)
        assert torch.equal(w[whole][..., : group.dim], torch.cat(heads, dim=-1)[whole])
        inside = [
            f.in_chart(x, 0.1, chart) for f, x in zip(group.factors, group.split(a), strict=True)
        ]
        assert torch.equal(group.in_chart(a, 0.1, chart), torch.stack(inside).all(0))
    for name in ("inverse", "project"):
        parts = zip(group.factors, group.split(a), strict=True)
        expected = group.join(*(getattr(f, name)(x) for f, x in parts))
        assert torch.equal(getattr(group, name)(a), expected)


def test_mirror_images_are_told_by_parities() -> None:
    group = la.product(la.Aff2, la.SO3, la.Aff3)
    mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0])).double()
    g = group.random(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first, *rest = group.split(g)
    moved = group.join(first @ mirror, *rest)
    w = group.log(moved, "polar")
    assert w.shape == (4, group.dim + 2)
    assert w[:, -2:].tolist() == [[1.0, 0.0]] * 4
    torch.testing.assert_close(group.exp(w, "polar"), moved)
    assert group.block_sq_norms(w).shape == (4, 4 + 1 + 4 + 2)
    torch.testing.assert_close(group.from_physical(group.to_physical(w)), w)
    valid = la.relations(group, moved, moved, "polar", margin=0.01).valid
    assert valid.diagonal().all()


def test_damage_is_named_by_its_factor() -> None:
    g = ARM.random(3)
    g[1, 4, 4] += 0.5
    with pytest.raises(ValueError, match=r"poses\[1\] .*its factor 2, SO\(2\), its rotation part"):
        ARM.check(g)
    g = ARM.random(3)
    g[2, 0, 5] = 0.5
    message = r"poses\[2\] is not in SE\(3\) x SO\(2\): .*0\.5\. product\(SE3, SO2\)\.project\(g\)"
    with pytest.raises(ValueError, match=message):
        ARM.check(g)
    assert ARM.contains(g).tolist() == [True, True, False]
    ARM.check(ARM.project(g))


def test_what_a_product_asks_of_a_pair_is_the_most_that_a_factor_asks() -> None:
    group = la.product(la.SE3, la.Aff2)
    for chart in group.charts:
        margins = [factor.chart_margin(chart) for factor in group.factors]
        assert group.chart_margin(chart) == max(margins)
        resolutions = [factor.chart(chart).resolution(torch.float32) for factor in group.factors]
        assert group.chart(chart).resolution(torch.float32) == max(resolutions)
    assert not group.is_global("polar")
    assert la.product(la.Aff2, la.Aff3).is_global("polar")
    a = group.identity(2, dtype=torch.float64)
    near = torch.zeros(2, group.dim, dtype=torch.float64)
    near[0, 5] = (torch.pi - 0.02) * 2**0.5  # the body, 0.02 from its cut
    near[1, 8] = (torch.pi - 0.02) * 2**0.5  # the plane
    for margin, valid in ((0.01, [True, True]), (0.03, [False, False])):
        found = group.relation(a, group.exp(near), margin=margin)[1]
        assert found.tolist() == valid
    polar = group.relation(a, group.exp(near), "polar", margin=0.03)[1]
    assert polar.tolist() == [False, True]


def test_points_of_factors_lie_side_by_side() -> None:
    g, p = ARM.random(4), torch.randn(4, 5)
    body, joint = ARM.split(g)
    expected = torch.cat((la.SE3.act(body, p[:, :3]), la.SO2.act(joint, p[:, 3:])), dim=-1)
    assert torch.equal(ARM.act(g, p), expected)


def test_means_are_those_of_factors() -> None:
    g = ARM.exp(0.3 * torch.randn(6, 7, generator=torch.Generator().manual_seed(0)).double())
    body, joint = ARM.split(g)
    expected = ARM.join(la.SE3.mean(body), la.SO2.mean(joint))
    torch.testing.assert_close(ARM.mean(g), expected)


@pytest.mark.parametrize("chart", ["principal", "polar"])
def test_a_transformer_on_a_product_learns_and_is_saved(chart: str, tmp_path: Path) -> None:
    group = la.product(la.SE3, la.Aff2)
    torch.manual_seed(0)
    config = la.LieTransformerConfig(dim=8, heads=2, layers=2, chart=chart)
    model = la.LieTransformer(group, config)
    g = group.exp(0.5 * torch.randn(4, 5, group.dim))
    truth = group.retract(g, 0.1 * torch.ones(group.dim))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = la.losses.geodesic_loss(group, model(g).poses, truth)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    la.testing.assert_equivariant(lambda x: model.double()(x).poses, group, g.double(), trials=2)
    model.float().save_pretrained(tmp_path)
    again = la.LieTransformer.from_pretrained(tmp_path)
    assert again.group is group
    torch.testing.assert_close(again(g).poses, model.eval()(g).poses)
