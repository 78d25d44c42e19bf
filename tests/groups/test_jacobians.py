"""Jacobians of exp: against 50 digits, with gradients, in both charts."""

import pytest
import torch

import exact
from every_group import ALL_GROUPS
from lieattn import SE3, Aff2, Aff3, Group, product

NAMES = [name for name in ALL_GROUPS if not name.startswith("generic")]
POLAR = [Aff2, Aff3, product(Aff2, SE3)]


@pytest.mark.parametrize("name", NAMES)
def test_jacobians_agree_with_differences_at_fifty_digits(name: str) -> None:
    group = ALL_GROUPS[name]
    # mpmath takes seconds for many coordinates: the hardest case does.
    cases = exact.coordinates(group)
    kept = list(cases) if group.dim <= 7 else list(cases)[-1:]
    for case in kept:
        x = cases[case]
        left, right = exact.left_jacobian(group, x), exact.left_jacobian(group, -x)
        for J, truth in ((group.left_jacobian(x), left), (group.right_jacobian(x), right)):
            assert (J - truth).norm() <= 1e-10 * truth.norm(), case
        for inverse, truth in (
            (group.left_jacobian_inverse(x), torch.linalg.inv(left)),
            (group.right_jacobian_inverse(x), torch.linalg.inv(right)),
        ):
            condition = torch.linalg.cond(truth)
            assert (inverse - truth).norm() <= 1e-12 * condition * truth.norm(), case


def test_the_two_sides_differ_by_the_adjoint(any_group: Group) -> None:
    generator = torch.Generator().manual_seed(1)
    x = 0.7 * torch.randn(3, any_group.dim, generator=generator, dtype=torch.float64)
    left, right = any_group.left_jacobian(x), any_group.right_jacobian(x)
    torch.testing.assert_close(any_group.adjoint(any_group.exp(x)) @ right, left)


def test_float32_is_as_exact_as_rounding_allows(any_group: Group) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, any_group.dim, generator=generator)
    truth = any_group.left_jacobian(x.double())
    error = (any_group.left_jacobian(x) - truth).flatten(1).norm(dim=1)
    assert (error <= 1e-5 * truth.flatten(1).norm(dim=1)).all()


def test_gradients_are_exact_at_zero_too(any_group: Group) -> None:
    if any_group.dim > 9:
        pytest.skip("the same code, and minutes of finite differences")
    x = torch.zeros(2, any_group.dim, dtype=torch.float64)
    x[1] = 0.3 * torch.randn(any_group.dim, generator=torch.Generator().manual_seed(0)).double()
    x.requires_grad_()
    assert torch.autograd.gradcheck(any_group.left_jacobian, x)
    assert torch.autograd.gradcheck(any_group.right_jacobian_inverse, x)


@pytest.mark.parametrize("group", POLAR, ids=str)
def test_jacobians_of_the_polar_chart_are_those_of_its_exp(group: Group) -> None:
    generator = torch.Generator().manual_seed(2)
    for scale in (0.0, 1e-8, 0.6):
        x = scale * torch.randn(3, group.dim, generator=generator, dtype=torch.float64)
        dx = 1e-6 * torch.randn(3, group.dim, generator=generator, dtype=torch.float64)
        # Central differences: what is left of their error is of third order in dx.
        g, ahead = group.exp(x - dx, "polar"), group.exp(x + dx, "polar")
        middle = group.exp(x, "polar")
        left = group.vee((ahead - g) @ group.inverse(middle)) / 2
        right = group.vee(group.inverse(middle) @ (ahead - g)) / 2
        J, K = group.left_jacobian(x, "polar"), group.right_jacobian(x, "polar")
        torch.testing.assert_close((J @ dx[..., None])[..., 0], left, rtol=1e-6, atol=1e-14)
        torch.testing.assert_close((K @ dx[..., None])[..., 0], right, rtol=1e-6, atol=1e-14)
        inverse = group.left_jacobian_inverse(x, "polar")
        torch.testing.assert_close(inverse @ J, torch.eye(group.dim).double().expand_as(J))


def test_polar_jacobians_take_coordinates_with_parity_and_have_gradients() -> None:
    x = torch.randn(2, Aff2.dim + 1, generator=torch.Generator().manual_seed(0)).double() / 2
    x[:, -1] = torch.tensor([0.0, 1.0])
    x.requires_grad_()
    J = Aff2.left_jacobian(x, "polar")
    assert J.shape == (2, Aff2.dim, Aff2.dim)
    torch.testing.assert_close(J[0], Aff2.left_jacobian(x[0, :-1], "polar"))
    (gradient,) = torch.autograd.grad(J.square().sum(), x)
    assert gradient.isfinite().all()


def test_the_polar_chart_of_rigid_motions_is_the_principal_one() -> None:
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    assert SE3.left_jacobian(x, "polar").equal(SE3.left_jacobian(x))


def test_wrong_coordinates_and_charts(any_group: Group) -> None:
    with pytest.raises(ValueError, match=r"coordinates must have shape"):
        any_group.left_jacobian(torch.zeros(any_group.dim + 5))
    with pytest.raises(ValueError, match="unknown chart 'round'"):
        any_group.right_jacobian_inverse(torch.zeros(any_group.dim), "round")
