"""Kinds of blocks, and what goes by them: units, positions, clearances."""

import pytest
import torch

import lieattn as la
from algebras import LORENTZ, beside, dilations, matrix, mixed, translations
from lieattn.groups import Block
from lieattn.groups._blocks import KINDS, rotation_clearance
from unrotated import Dilations


def known(name: str) -> torch.Tensor:
    return la.get_group(name).basis(dtype=torch.float64)


PAIR = la.matrix_group("SE3 x SE3", beside(known("SE3"), known("SE3")))


def test_the_kind_of_a_block_is_given_or_told_by_its_name() -> None:
    assert [Block(kind, 1).kind for kind in KINDS] == list(KINDS)
    assert Block("rotation2", 3).kind == "rotation"
    assert Block("velocity", 3).kind == "other"
    assert Block("velocity", 3, "translation").kind == "translation"
    with pytest.raises(ValueError, match="unknown kind 'turn' of a block; known are translation"):
        Block("yaw", 1, "turn")


def test_names_and_sizes_of_registered_groups_are_those_of_checkpoints() -> None:
    found = {g.name: {b.name: b.dim for b in g.blocks} for g in la.available_groups().values()}
    rigid = {n: {"translation": n, "rotation": n * (n - 1) // 2} for n in (2, 3)}
    expected = {
        "SO2": {"rotation": 1},
        "SO3": {"rotation": 3},
        **{f"SE{n}": rigid[n] for n in (2, 3)},
        **{f"Sim{n}": {**rigid[n], "scale": 1} for n in (2, 3)},
        "Aff2": {**rigid[2], "scale": 1, "shear": 2},
        "Aff3": {**rigid[3], "scale": 1, "shear": 5},
        **{f"T{n}": {"translation": n} for n in (2, 3)},
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("name", list(la.available_groups()))
def test_units_of_derived_groups_are_those_of_registered_ones(name: str) -> None:
    group = la.get_group(name)
    derived = la.matrix_group(name, mixed(known(name), 3))
    x = torch.randn(5, group.dim, generator=torch.Generator().manual_seed(0)).double()
    same = group.to_physical(group.vee(derived.hat(x)))
    torch.testing.assert_close(
        derived.block_sq_norms(derived.to_physical(x)), group.block_sq_norms(same)
    )
    torch.testing.assert_close(derived.from_physical(derived.to_physical(x)), x)


def test_an_angle_is_that_of_every_plane_that_turns() -> None:
    """SO(3) on two copies of space at once: the same rotation, a longer generator."""
    twice = la.matrix_group("G", torch.stack([torch.block_diag(x, x) for x in known("SO3")]))
    R = la.SO3.exp(la.SO3.from_physical(torch.tensor([0.3, -0.4, 1.2]).double()))
    angle = twice.to_physical(twice.log(torch.block_diag(R, R))).norm()
    torch.testing.assert_close(angle, torch.tensor(1.3).double())
    four = la.matrix_group("SO4", skew_of_four())
    turn = torch.block_diag(torch.eye(2), la.SO2.from_angle(torch.tensor(0.7))).double()
    torch.testing.assert_close(four.to_physical(four.log(turn)).norm(), torch.tensor(0.7).double())


def skew_of_four() -> torch.Tensor:
    pairs = [(i, j) for i in range(4) for j in range(i)]
    return torch.stack([matrix(4, (i, j, 1.0), (j, i, -1.0)) for i, j in pairs])


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        (matrix(1, (0, 0, 1.0)), "scale"),
        (matrix(3, (0, 0, 2.0), (2, 2, 2.0)), "scale"),
        (matrix(3, (0, 0, 1.0), (1, 1, 2.0)), "other"),
        (matrix(3, (0, 0, 1.0), (1, 1, -1.0)), "shear"),
        (matrix(3, (0, 2, 1.0), (2, 0, 1.0)), "shear"),
        (matrix(3, (0, 2, 1.0), (2, 0, -1.0)), "rotation"),
        (matrix(3, (0, 2, 1.0)), "translation"),
        (matrix(3, (2, 0, 1.0)), "translation"),  # the first coordinate is the homogeneous one
        (matrix(3, (0, 1, 1.0), (1, 0, -1.0), (2, 2, 0.1)), "other"),
    ],
)
def test_kinds_are_read_off_matrices(element: torch.Tensor, kind: str) -> None:
    assert [b.kind for b in la.matrix_group("G", 3 * element[None]).blocks] == [kind]


def test_positions_are_the_entries_that_a_unit_of_length_multiplies() -> None:
    for group in (la.SE3, la.Aff2, PAIR, Dilations("Dil3", 3), la.SO3):
        g, h = group.random(2, 3, dtype=torch.float64).unbind(0)
        product = group.compose(g, h)
        for x in (g, h, product):
            x[:, group.position_entries] *= 1000.0
        torch.testing.assert_close(group.compose(g, h), product)
        assert group.check(product) is product
        count = len(group.coordinates_of("translation"))
        assert int(group.position_entries.sum()) == count
    assert PAIR.coordinates_of("rotation") == [6, 7, 8, 9, 10, 11]


def test_the_clearance_is_that_of_the_largest_angle() -> None:
    w = torch.zeros(2, 12)
    w[0, 6], w[0, 9], w[1, 8] = 1.0, 2.0, 3.0
    expected = torch.pi - torch.tensor([2.0, 3.0]) / 2**0.5
    torch.testing.assert_close(rotation_clearance(PAIR.blocks, w), expected)
    for group in (Dilations("Dil2", 2), la.T2):
        assert (rotation_clearance(group.blocks, torch.ones(4, group.dim)) == torch.pi).all()


def test_translations_of_a_semidirect_product_may_be_several_blocks() -> None:
    class Apart(type(la.T3)):
        """Translations of space whose height is a block of its own."""

    blocks = Block("translation", 2), Block("height", 1, "translation")
    group = Apart("T2 x T1", 3, *blocks)
    assert group.blocks == blocks
    torch.testing.assert_close(group.basis(), la.T3.basis())
    norms = group.block_sq_norms(group.log(group.from_vector(torch.tensor([3.0, 4.0, 2.0]))))
    assert norms.tolist() == [25.0, 4.0]


def test_names_are_numbered_within_a_kind() -> None:
    assert [b.name for b in PAIR.blocks] == ["translation", "translation2", "rotation", "rotation2"]
    four = la.matrix_group("G", beside(dilations(2), translations(3), LORENTZ))
    names = ["translation", "translation2", "rotation", "scale", "shear"]
    assert [b.name for b in four.blocks] == names
