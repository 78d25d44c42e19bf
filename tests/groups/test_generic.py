"""`matrix_group`: blocks found without a hint, bad bases explained."""

import pytest
import torch

import lieattn
from algebras import GENERIC, HEISENBERG, LORENTZ, SL3, matrix, scrambled
from lieattn import matrix_group


@pytest.mark.parametrize("name", list(lieattn.available_groups()))
def test_blocks_of_known_groups_are_found_without_a_hint(name: str) -> None:
    """Names, sizes and order, from a basis that is shuffled, mixed and not normalised."""
    assert matrix_group(name, scrambled(name)).blocks == lieattn.get_group(name).blocks


def test_coordinates_agree_with_the_closed_form_of_the_same_group() -> None:
    closed, generic = lieattn.SE3, matrix_group("G", scrambled("SE3"))
    g = closed.random(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = g[closed.in_chart(g, margin=0.1)]
    torch.testing.assert_close(
        generic.block_sq_norms(generic.log(g)), closed.block_sq_norms(closed.log(g))
    )


def test_a_logarithm_outside_the_algebra_is_not_a_coordinate() -> None:
    G = matrix_group("SL3", SL3)
    g = 2.0 * torch.eye(3, dtype=torch.float64)  # det 8: in the chart of GL(3), not in SL(3)
    assert G.log(g).isnan().all()
    with pytest.raises(ValueError, match="logarithm misses the algebra"):
        G.check(g)


def test_off_the_chart_is_nan_and_flagged() -> None:
    G = matrix_group("Lorentz", LORENTZ)
    half_turn = torch.diag(torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64))
    assert G.log(half_turn).isnan().all()
    assert not G.in_chart(half_turn)
    assert not G.in_chart(torch.full((4, 4), torch.nan))


def test_a_basis_that_does_not_close_is_named() -> None:
    with pytest.raises(ValueError, match=r"not a Lie algebra: the bracket .* leaves its span"):
        matrix_group("G", SL3[[0, 2]])  # E01 and E10, without diag(1, -1, 0)


def test_a_dependent_basis_is_named() -> None:
    with pytest.raises(ValueError, match=r"4 matrices that span 3 dimensions only"):
        matrix_group("G", torch.cat((HEISENBERG, HEISENBERG[:1] * 2)))
    with pytest.raises(ValueError, match=r"2 matrices that span 1"):
        matrix_group("G", torch.stack((matrix(2, (0, 1, 1.0)), torch.zeros(2, 2).double())))


@pytest.mark.parametrize(
    ("basis", "error", "message"),
    [
        (torch.zeros(3, 3), ValueError, r"shape \[d, m, m\] with d >= 1, got \[3, 3\]"),
        (torch.zeros(0, 3, 3), ValueError, r"d >= 1"),
        (torch.zeros(1, 2, 3), ValueError, r"got \[1, 2, 3\]"),
        (torch.full((1, 2, 2), torch.nan), ValueError, "NaN"),
        (torch.zeros(1, 2, 2, dtype=torch.int64), ValueError, "float32 or float64"),
        ([[1.0]], TypeError, "as_tensor"),
    ],
)
def test_bad_bases_are_explained(basis: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        matrix_group("G", basis)  # type: ignore[arg-type]


def test_float32_bases_are_accepted() -> None:
    for name, basis in GENERIC.items():
        assert matrix_group(name, basis.float()).blocks == matrix_group(name, basis).blocks


def test_polar_chart_is_refused() -> None:
    G = matrix_group("Heisenberg", HEISENBERG)
    with pytest.raises(ValueError, match="known are principal for"):
        G.log(G.identity(), chart="polar")
