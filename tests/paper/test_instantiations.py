"""Table 1 of the paper and the remarks on Ad-invariant metrics, computed."""

import pytest
import torch

import lieattn
from algebras import HEISENBERG, LORENTZ, SE2_3, SL3, scrambled
from lieattn.groups import theory
from lieattn.lab.verify import PAPER, instantiation


@pytest.mark.parametrize("name", list(PAPER))
def test_row_of_the_table_follows_from_the_generators(name: str) -> None:
    row = instantiation(lieattn.get_group(name))
    sizes = tuple(block.dim for block in row.blocks)
    assert (row.dim, sizes, row.metric.exists) == PAPER[name]


def test_weights_per_head() -> None:
    counts = [len(theory.irreducible_blocks(scrambled(name))) for name in PAPER]
    assert counts == [1, 2, 1, 2, 4, 4]


@pytest.mark.parametrize(
    ("basis", "exists", "reason", "forms"),
    [
        (SL3, False, "indefinite", 1),
        (LORENTZ, False, "indefinite", 2),
        (HEISENBERG, False, "radical", 3),
        (SE2_3, False, "radical", 3),
        (scrambled("SO3"), True, "Killing", 1),
        (scrambled("SO2"), True, "abelian", 1),
        (scrambled("SE3"), False, "radical", 2),
    ],
)
def test_ad_invariant_forms(basis: torch.Tensor, exists: bool, reason: str, forms: int) -> None:
    metric = theory.invariant_metric(basis)
    assert (metric.exists, metric.reason) == (exists, reason)
    assert len(theory.invariant_forms(basis)) == forms


@pytest.mark.parametrize("name", list(PAPER))
def test_forms_are_invariant_under_the_adjoint_action(name: str) -> None:
    group = lieattn.get_group(name)
    g = group.random(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Ad = group.adjoint(g)
    for form in theory.invariant_forms(group):
        moved = Ad.mT @ form @ Ad
        size = Ad.flatten(1).norm(dim=1).square()[:, None, None]
        assert ((moved - form).abs() / size).max() < 1e-12


@pytest.mark.parametrize("name", ["SE2", "SE3", "Aff2", "Aff3"])
def test_translations_are_isotropic_for_every_invariant_form(name: str) -> None:
    """The remarks of Sections 2.4 and 3: B vanishes on the translation ideal."""
    group = lieattn.get_group(name)
    n = group.n
    assert theory.invariant_forms(group)[:, :n, :n].abs().max() < 1e-12


def test_killing_form_of_so3_is_minus_the_frobenius_form() -> None:
    killing = theory.killing_form(lieattn.SO3)
    torch.testing.assert_close(killing, -torch.eye(3, dtype=torch.float64))


def test_structure_constants_give_the_bracket() -> None:
    group = lieattn.Aff2
    x, y = torch.randn(2, group.dim, dtype=torch.float64)
    c = theory.structure_constants(group)
    torch.testing.assert_close(torch.einsum("i,j,ijk->k", x, y, c), group.bracket(x, y))
