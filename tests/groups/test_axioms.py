"""Laws that every group obeys, the ones made by `matrix_group` included."""

import copy
import pickle

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lieattn
from every_group import ALL_GROUPS
from lieattn import Group
from lieattn.testing import LAWS, assert_axioms, axiom_errors, sample_coordinates


def expm(X: torch.Tensor) -> torch.Tensor:
    """Exponential by mpmath: torch.linalg.matrix_exp (2.13) errs by 2e-11 on some matrices, scipy
    (1.17) by 2e-14."""
    with mpmath.workdps(30):
        values = mpmath.expm(mpmath.matrix(X.double().tolist())).tolist()
    return torch.tensor([[float(v) for v in row] for row in values], dtype=X.dtype)


def test_laws_of_the_paper_hold(any_group: Group, dtype: torch.dtype) -> None:
    assert_axioms(any_group, dtype, samples=200)


def test_assert_axioms_names_the_broken_law() -> None:
    class Broken(type(lieattn.SO2)):
        def inverse(self, g):
            return g

        def _log_relative(self, a, b):
            return self._log(a @ b)

    with pytest.raises(AssertionError, match="invariance"):
        assert_axioms(Broken("SO2", 2))


def test_axiom_errors_are_infinite_where_a_logarithm_is_missing() -> None:
    class Holes(type(lieattn.SO2)):
        def _log(self, g):
            w, valid = super()._log(g)
            return w, valid & (w[..., 0] > 0)

    assert axiom_errors(Holes("SO2", 2))["round trip"] == float("inf")


@pytest.mark.parametrize("batch", [(), (1,), (3, 1, 2), (0,)])
def test_operations_keep_batch_shapes(
    any_group: Group, batch: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator
) -> None:
    G, m = any_group, any_group.matrix_size
    g = G.random(*batch, generator=generator, dtype=dtype)
    x = torch.zeros(*batch, G.dim, dtype=dtype)
    assert g.shape == G.inverse(g).shape == G.exp(x).shape == G.identity(*batch).shape
    assert g.shape == (*batch, m, m)
    assert G.log(g).shape == x.shape == G.vee(G.hat(x)).shape
    assert G.adjoint(g).shape == (*batch, G.dim, G.dim)
    assert G.in_chart(g).shape == batch
    assert G.block_sq_norms(x).shape == (*batch, len(G.blocks))
    assert {g.dtype, G.log(g).dtype, G.exp(x).dtype, G.project(g).dtype} == {dtype}


def test_batches_broadcast(any_group: Group, generator: torch.Generator) -> None:
    a = any_group.random(4, 1, generator=generator, dtype=torch.float64)
    b = any_group.random(3, generator=generator, dtype=torch.float64)
    m = any_group.matrix_size
    full_a, full_b = a.expand(4, 3, m, m), b.expand(4, 3, m, m)
    for f in (any_group.compose, any_group.relative, any_group.log_relative):
        torch.testing.assert_close(f(a, b), f(full_a, full_b), equal_nan=True)


def test_basis_is_orthonormal_and_closed(any_group: Group) -> None:
    basis = any_group.basis(dtype=torch.float64)
    gram = torch.einsum("iab,jab->ij", basis, basis)
    torch.testing.assert_close(gram, torch.eye(any_group.dim, dtype=torch.float64))
    products = torch.einsum("iab,jbc->ijac", basis, basis)
    brackets = products - products.transpose(0, 1)
    inside = any_group.hat(any_group.vee(brackets))
    torch.testing.assert_close(inside, brackets, atol=1e-12, rtol=0)


def test_exp_agrees_with_the_matrix_exponential(any_group: Group, dtype: torch.dtype) -> None:
    x = sample_coordinates(any_group, 10, generator=torch.Generator().manual_seed(1), dtype=dtype)
    truth = torch.stack([expm(X) for X in any_group.hat(x.double())])
    error = (any_group.exp(x).double() - truth).abs().amax((-2, -1)) / truth.abs().amax((-2, -1))
    assert error.max() < 10 * torch.finfo(dtype).eps


def test_log_of_identity_is_zero(any_group: Group, dtype: torch.dtype) -> None:
    assert (any_group.log(any_group.identity(dtype=dtype)) == 0).all()
    g = any_group.random(20, generator=torch.Generator().manual_seed(6), dtype=dtype)
    w = any_group.log_relative(g, g)
    assert (w == 0).all()


def test_random_elements_are_on_the_group_and_reproducible(
    any_group: Group, dtype: torch.dtype
) -> None:
    draws = [
        any_group.random(64, generator=torch.Generator().manual_seed(3), dtype=dtype)
        for _ in range(2)
    ]
    assert torch.equal(*draws)
    assert any_group.check(draws[0]) is draws[0]


def test_projection_leaves_elements_alone(group: Group, dtype: torch.dtype) -> None:
    g = group.random(64, generator=torch.Generator().manual_seed(3), dtype=dtype)
    torch.testing.assert_close(group.project(g), g, atol=20 * torch.finfo(dtype).eps, rtol=0)


def test_projection_mends_drifted_poses(group: Group, dtype: torch.dtype) -> None:
    g = group.random(64, generator=torch.Generator().manual_seed(3), dtype=dtype)
    noise = torch.randn(g.shape, generator=torch.Generator().manual_seed(4), dtype=dtype)
    group.check(group.project(g + 0.01 * noise))


def test_projection_of_a_generic_group_mends_drift() -> None:
    G = ALL_GROUPS["SO(1,3)"]
    x = 0.3 * torch.randn(8, G.dim, generator=torch.Generator().manual_seed(5)).double()
    g = G.exp(x) + 1e-4
    with pytest.raises(ValueError, match="project"):
        G.check(g)
    G.check(G.project(g))


def test_groups_survive_copying_and_pickling_as_the_same_group(any_group: Group) -> None:
    for twin in (copy.deepcopy(any_group), pickle.loads(pickle.dumps(any_group))):
        assert twin.name == any_group.name
        assert twin.blocks == any_group.blocks
    if any_group.name in lieattn.available_groups():
        assert copy.deepcopy(any_group) is any_group


# ---- properties ------------------------------------------------------------------------------

SEEDS = st.integers(0, 2**31 - 1)
DTYPES = st.sampled_from([torch.float32, torch.float64])
GROUPS = st.sampled_from(list(ALL_GROUPS))
SCALES = st.floats(-12, 0).map(lambda e: 10.0**e)  # from 1e-12 of the chart to all of it


def draw(name: str, seed: int, dtype: torch.dtype, scale: float) -> tuple[Group, torch.Tensor]:
    group = ALL_GROUPS[name]
    generator = torch.Generator().manual_seed(seed)
    return group, scale * sample_coordinates(group, 2, generator=generator, dtype=dtype)


@given(GROUPS, SEEDS, DTYPES, SCALES)
@settings(max_examples=300, deadline=None)
def test_log_inverts_exp_on_chart(name: str, seed: int, dtype: torch.dtype, scale: float) -> None:
    group, x = draw(name, seed, dtype, scale)
    error = (group.log(group.exp(x)) - x).norm(dim=-1)
    allowed = LAWS[0].allowed(group, dtype)
    assert (error <= allowed * (1 + x.norm(dim=-1))).all()


@given(GROUPS, SEEDS, DTYPES, SCALES)
@settings(max_examples=300, deadline=None)
def test_invariant_unchanged_by_left_translation(
    name: str, seed: int, dtype: torch.dtype, scale: float
) -> None:
    group, x = draw(name, seed, dtype, scale)
    a, g = group.random(2, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    h = group.compose(g, group.exp(x[0]))
    w = group.log_relative(g, h)
    moved = group.log_relative(group.compose(a, g), group.compose(a, h))
    assert (moved - w).norm() <= LAWS[1].allowed(group, dtype) * (1 + w.norm())


@given(GROUPS, SEEDS, DTYPES)
@settings(max_examples=200, deadline=None)
def test_group_axioms(name: str, seed: int, dtype: torch.dtype) -> None:
    group = ALL_GROUPS[name]
    a, b, c = group.random(3, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    eps = torch.finfo(dtype).eps
    size = a.norm() * b.norm() * c.norm()
    left, right = group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c))
    assert (left - right).norm() <= 10 * eps * size
    condition = a.norm() * group.inverse(a).norm()
    eye = group.identity(dtype=dtype)
    assert (group.compose(a, group.inverse(a)) - eye).norm() <= 10 * eps * condition
    assert (group.compose(group.inverse(a), a) - eye).norm() <= 10 * eps * condition
    assert (group.relative(a, b) - group.compose(group.inverse(a), b)).norm() <= (
        10 * eps * condition * b.norm()
    )


@given(GROUPS, SEEDS, DTYPES)
@settings(max_examples=200, deadline=None)
def test_adjoint_identities(name: str, seed: int, dtype: torch.dtype) -> None:
    group, (x, y) = draw(name, seed, dtype, 0.5)
    g, h = group.random(2, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    eps = torch.finfo(dtype).eps
    Ad_g, Ad_h = group.adjoint(g), group.adjoint(h)
    size = Ad_g.norm() * Ad_h.norm() * (g.norm() * h.norm()) ** 2
    # Ad is a homomorphism,
    assert (group.adjoint(group.compose(g, h)) - Ad_g @ Ad_h).norm() <= 100 * eps * size
    # it moves exponentials, g exp(x) g^-1 = exp(Ad_g x),
    moved = group.compose(group.compose(g, group.exp(x)), group.inverse(g))
    truth = group.exp(Ad_g @ x)
    scale = g.norm() * group.inverse(g).norm() * (1 + (Ad_g @ x).norm())
    assert (moved - truth).norm() <= 100 * eps * scale * (1 + truth.norm())
    # and Ad(exp x) = expm(ad_x), with ad_x y = [x, y].
    ad_x = torch.stack([group.bracket(x, e) for e in torch.eye(group.dim, dtype=dtype)], dim=-1)
    torch.testing.assert_close(ad_x @ y, group.bracket(x, y), atol=50 * eps, rtol=50 * eps)
    series = expm(ad_x)
    error = (group.adjoint(group.exp(x)) - series).norm()
    assert error <= 200 * eps * series.norm() * (1 + ad_x.norm())


@given(GROUPS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_bracket_is_antisymmetric_and_obeys_jacobi(name: str, seed: int) -> None:
    group = ALL_GROUPS[name]
    generator = torch.Generator().manual_seed(seed)
    x, y, z = torch.randn(3, group.dim, generator=generator, dtype=torch.float64)
    br = group.bracket
    torch.testing.assert_close(br(x, y), -br(y, x), atol=1e-12, rtol=0)
    jacobi = br(x, br(y, z)) + br(y, br(z, x)) + br(z, br(x, y))
    torch.testing.assert_close(jacobi, torch.zeros_like(jacobi), atol=1e-11, rtol=0)


@given(GROUPS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_coordinates_convert_both_ways(name: str, seed: int) -> None:
    group = ALL_GROUPS[name]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(5, group.dim, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(group.vee(group.hat(x)), x)
    torch.testing.assert_close(group.from_physical(group.to_physical(x)), x)
    norms = group.block_sq_norms(x)
    torch.testing.assert_close(norms.sum(-1), group.hat(x).square().sum((-2, -1)))
