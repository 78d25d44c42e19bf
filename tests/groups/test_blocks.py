"""Blocks of `matrix_group` against the theory, computed here in another way."""

from itertools import islice, product

import numpy as np
import pytest
import torch
from torch import Tensor

import lieattn as la
from algebras import HEISENBERG, LORENTZ, SE2_3, beside, dilations, matrix, mixed, sl, translations
from algebras import skew as plane
from lieattn.groups import theory


def known(name: str) -> Tensor:
    return la.get_group(name).basis(dtype=torch.float64)


SO4 = torch.stack([plane(4, i, j) for i in range(4) for j in range(i)])
DIAGONAL = torch.stack([matrix(3, (i, i, 1.0)) for i in range(3)])
TWICE = torch.stack([torch.block_diag(x, x) for x in known("SO3")])

TABLE = {  # blocks that follow from the theory by hand
    "T2": (translations(2), "translation 2"),
    "T3": (translations(3), "translation 3"),
    "Dil2": (dilations(2), "translation 2, scale 1"),
    "Dil3": (dilations(3), "translation 3, scale 1"),
    "SO2": (known("SO2"), "rotation 1"),
    "SO3": (known("SO3"), "rotation 3"),
    "SO4": (SO4, "rotation 6"),
    "SE2": (known("SE2"), "translation 2, rotation 1"),
    "SE3": (known("SE3"), "translation 3, rotation 3"),
    "Sim2": (known("Sim2"), "translation 2, rotation 1, scale 1"),
    "Sim3": (known("Sim3"), "translation 3, rotation 3, scale 1"),
    "Aff2": (known("Aff2"), "translation 2, rotation 1, scale 1, shear 2"),
    "Aff3": (known("Aff3"), "translation 3, rotation 3, scale 1, shear 5"),
    "SL2": (sl(2), "rotation 1, shear 2"),
    "SL3": (sl(3), "rotation 3, shear 5"),
    "SL4": (sl(4), "rotation 6, shear 9"),
    "SO2 x SO2": (beside(known("SO2"), known("SO2")), "rotation 1, rotation 1"),
    "T2 x T2": (beside(translations(2), translations(2)), "translation 2, translation 2"),
    "T2 x SO3": (beside(translations(2), known("SO3")), "translation 2, rotation 3"),
    "Dil2 x Dil2": (
        beside(dilations(2), dilations(2)),
        "translation 2, translation 2, scale 1, scale 1",
    ),
    "SE2 x SE3": (
        beside(known("SE2"), known("SE3")),
        "translation 2, translation 3, rotation 1, rotation 3",
    ),
    "SE3 x SE3": (
        beside(known("SE3"), known("SE3")),
        "translation 3, translation 3, rotation 3, rotation 3",
    ),
    "diagonal": (DIAGONAL, "scale 1, scale 1, scale 1"),
    "SO3 twice": (TWICE, "rotation 3"),
    # Velocity and position turn into each other by a rotation of the last two coordinates.
    "SE_2(3)": (SE2_3, "translation 6, rotation 3"),
    "Heisenberg": (HEISENBERG, "translation 1, translation 1, other 1"),
    "Lorentz": (LORENTZ, "rotation 3, shear 3"),
}
names = pytest.mark.parametrize("name", list(TABLE))


def told(group: la.Group) -> str:
    return ", ".join(f"{block.kind} {block.dim}" for block in group.blocks)


@names
def test_blocks_are_those_of_the_theory_in_any_basis(name: str) -> None:
    """From the basis itself; mixed, permuted and with norms from 1e-6 to 1e6; and in float32."""
    basis, blocks = TABLE[name]
    group = la.matrix_group(name, basis)
    assert told(group) == blocks
    own = projections(group)
    for seed in range(3):
        other = la.matrix_group(name, mixed(basis, seed))
        assert other.blocks == group.blocks
        torch.testing.assert_close(projections(other), own, atol=1e-8, rtol=0)
        rounded = la.matrix_group(name, mixed(basis, seed, norms=1.0).float())
        assert rounded.blocks == group.blocks
        torch.testing.assert_close(projections(rounded), own, atol=1e-4, rtol=0)


def projections(group: la.Group) -> Tensor:
    """Of all matrices on each block, `[K, m^2, m^2]`: what a block is, whatever its basis."""
    rows = group.basis(dtype=torch.float64).flatten(1).split([b.dim for b in group.blocks])
    return torch.stack([x.mT @ x for x in rows])


@names
def test_sizes_agree_with_a_computation_of_another_kind(name: str) -> None:
    """All 2^m signs are tried, and a random matrix of the commutant has blocks as eigenspaces."""
    basis, _ = TABLE[name]
    group = la.matrix_group(name, basis)
    assert sorted(block.dim for block in group.blocks) == sizes_by_numpy(basis.numpy())


def sizes_by_numpy(basis: np.ndarray) -> list[int]:
    d, m = basis.shape[:2]
    flat = np.linalg.svd(basis.reshape(d, -1), full_matrices=False)[2]
    inside, outside = flat.T @ flat, np.eye(m * m) - flat.T @ flat
    eye = np.eye(m)
    units = [
        np.outer(eye[i], eye[j]) - np.outer(eye[j], eye[i]) for i, j in np.ndindex(m, m) if i < j
    ]
    ads = [np.kron(y, eye) + np.kron(eye, y) for y in units]  # of X -> YX - XY = YX + XY^T
    residues = np.array([(outside @ ad @ inside).ravel() for ad in ads]).T
    turns = null_space(residues)
    actions = [sum(c * ad for c, ad in zip(row, ads, strict=True)) for row in turns]
    for signs in product((1.0, -1.0), repeat=m - 1):
        flip = np.kron(np.diag((1.0, *signs)), np.diag((1.0, *signs)))
        if np.abs(outside @ flip @ inside).max() < 1e-8:
            actions.append(flip)
    actions = [flat @ action @ flat.T for action in actions]
    draw = np.random.default_rng(0).standard_normal((d, d))
    return eigenspace_sizes(actions, draw + draw.T)


def null_space(matrix: np.ndarray) -> np.ndarray:
    """Orthonormal rows x with matrix @ x = 0."""
    _, sigma, right = np.linalg.svd(np.linalg.qr(matrix, mode="r"))
    return right[int((sigma > 1e-8).sum()) :]


def eigenspace_sizes(actions: list[np.ndarray], draw: np.ndarray) -> list[int]:
    d = len(draw)
    eye = np.eye(d)
    commute = np.concatenate([np.kron(a, eye) - np.kron(eye, a.T) for a in actions])
    swap = np.kron(eye, eye).reshape(d, d, d, d).transpose(0, 1, 3, 2).reshape(d * d, d * d)
    null = null_space(np.concatenate([commute, np.eye(d * d) - swap]))
    values = np.linalg.eigvalsh((null.T @ (null @ draw.ravel())).reshape(d, d))
    cuts = np.flatnonzero(np.diff(values) > 1e-6) + 1
    return sorted(len(part) for part in np.split(values, cuts))


@pytest.mark.parametrize("name", ["T2", "T3", "Dil2", "Dil3", "SE2", "SE3", "Sim3", "Aff2", "Aff3"])
def test_norms_of_blocks_are_unchanged_by_orthogonal_matrices(name: str) -> None:
    group = la.matrix_group(name, mixed(TABLE[name][0], 1))
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(20, group.dim, generator=generator, dtype=torch.float64)
    turn = orthogonal(group.matrix_size - 1, generator)
    moved = group.vee(turn @ group.hat(x) @ turn.mT)
    torch.testing.assert_close(group.hat(moved), turn @ group.hat(x) @ turn.mT)
    torch.testing.assert_close(group.block_sq_norms(moved), group.block_sq_norms(x))


def orthogonal(n: int, generator: torch.Generator) -> Tensor:
    """A random element of O(n), with a reflection, as an affine map."""
    Q = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64)).Q
    Q = torch.diag(torch.tensor([-1.0] + [1.0] * (n - 1)).double()) @ Q
    return torch.block_diag(Q, torch.ones(1, 1).double())


@pytest.mark.parametrize("n", [2, 3])
def test_hidden_states_of_translations_are_unchanged_by_orthogonal_matrices(n: int) -> None:
    """The score sees no direction; values do, by their columns for w, which turn with the scene."""
    group = la.matrix_group(f"T{n}", translations(n))
    generator = torch.Generator().manual_seed(0)
    config = la.LieTransformerConfig(features=3)
    model = la.LieTransformer(group, config).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator).double() / 2)
    poses = group.exp(torch.randn(4, 7, n, generator=generator, dtype=torch.float64))
    features = torch.randn(4, 7, 3, generator=generator, dtype=torch.float64)
    turn = orthogonal(n, generator)
    turned = turn @ poses @ turn.mT
    before = model(poses, features=features).hidden
    naive = (model(turned, features=features).hidden - before).abs().max()
    for layer in model.layers:
        columns = layer.attention.value.weight.data[:, config.dim :]
        columns.copy_(columns @ turn[:n, :n].mT)
    torch.testing.assert_close(model(turned, features=features).hidden, before)
    assert naive > 0.01  # of the directions that values carry
    for layer in model.layers:
        layer.attention.value.weight.data[:, config.dim :] = 0
    torch.testing.assert_close(
        model(turned, features=features).hidden, model(poses, features=features).hidden
    )


def test_a_product_of_groups_has_blocks_that_keep_to_one_factor() -> None:
    group = la.matrix_group("G", mixed(TABLE["SE3 x SE3"][0], 5))
    for rows in group.basis(dtype=torch.float64).split([b.dim for b in group.blocks]):
        first, second = (rows[:, part, part].abs().max() for part in (slice(4), slice(4, 8)))
        assert min(first, second) < 1e-10


def test_equivalent_blocks_are_split_by_symmetry_of_their_matrices() -> None:
    """Seen from a frame of four dimensions no sign tells rotations and translations apart."""
    draw = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Q = torch.linalg.qr(draw).Q
    group = la.matrix_group("G", mixed(Q @ known("SE3") @ Q.mT, 2))
    assert told(group) == "rotation 3, other 3"


@pytest.mark.parametrize("name", ["diagonal", "SE3 x SE3", "Dil2 x Dil2", "Aff2"])
def test_random_forms_alone_find_as_many_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = theory._quadratic_forms
    monkeypatch.setattr(theory, "_quadratic_forms", lambda basis: islice(forms(basis), 2, None))
    basis, blocks = TABLE[name]
    sizes = sorted(len(rows) for rows in theory.irreducible_blocks(basis))
    assert sizes == sorted(int(block.split()[1]) for block in blocks.split(", "))


@pytest.mark.parametrize("name", ["SE3", "SL3", "Lorentz", "SE_2(3)", "SO2 x SO2"])
def test_sign_changes_are_those_that_a_search_finds(name: str) -> None:
    basis = TABLE[name][0]
    flat = torch.linalg.qr(basis.flatten(1).mT).Q
    found = set()
    for signs in product((1.0, -1.0), repeat=basis.shape[-1]):
        s = torch.tensor(signs, dtype=torch.float64)
        moved = (s[:, None] * basis * s).flatten(1)
        if (moved - moved @ flat @ flat.mT).abs().max() < 1e-9:
            found.add(signs)
    generators = theory.sign_changes(basis)
    made = {
        tuple(generators[[i for i, on in enumerate(choice) if on]].prod(0).tolist())
        for choice in product((0, 1), repeat=len(generators))
    }
    assert made == found
    assert len(found) == 2 ** len(generators)
