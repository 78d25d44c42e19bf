"""Gradients: exact at the identity, at half turns and next to the cut; double backward too."""

import math

import pytest
import torch
from torch import Tensor

import lieattn
from every_group import UP_TO_THE_CUT, WITH_PARITY
from lieattn import Group
from lieattn.testing import sample_coordinates

ANGLES = [0.0, 1e-8, 1e-6, 1e-4, 1e-2, 0.3, 1.0, 2.0, 3.0, math.pi - 1e-2, math.pi - 1e-3]


def with_angle(group: Group, angle: float, count: int, dtype: torch.dtype) -> Tensor:
    """Coordinates with a given rotation angle; small scale and shear."""
    x = torch.randn(count, group.dim, generator=torch.Generator().manual_seed(0)).double()
    parts = list(x.split([block.dim for block in group.blocks], dim=-1))
    for i, block in enumerate(group.blocks):
        if block.kind == "rotation":
            parts[i] = parts[i] / parts[i].norm(dim=-1, keepdim=True) * angle * math.sqrt(2)
        elif block.kind in ("scale", "shear"):
            parts[i] = 0.1 * min(angle, 1.0) * parts[i]
    return torch.cat(parts, dim=-1).to(dtype)


def jacobian_of_round_trip(group: Group, x: Tensor, chart: str = "principal") -> Tensor:
    return torch.func.vmap(torch.func.jacrev(lambda v: group.log(group.exp(v, chart), chart)))(x)


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("group", UP_TO_THE_CUT, ids=str)
def test_log_of_exp_has_the_identity_as_jacobian(
    group: Group, angle: float, dtype: torch.dtype
) -> None:
    J = jacobian_of_round_trip(group, with_angle(group, angle, 20, dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    assert (J - torch.eye(group.dim, dtype=dtype)).abs().max() < tolerance


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("group", WITH_PARITY, ids=str)
def test_affine_log_of_exp_has_the_identity_as_jacobian(
    group: Group, angle: float, dtype: torch.dtype
) -> None:
    """The derivative of log is exact at the matrix it is given, at every angle.

    That of log(exp(x)) is the identity only as far as the rounded matrix exp(x) still knows x:
    next to the cut the derivative itself is of order 1 / distance and moves by eps / distance^2.
    """
    x = with_angle(group, angle, 20, dtype)
    if dtype == torch.float32:
        derivative = torch.func.vmap(torch.func.jacrev(group.log))
        given, exact = derivative(group.exp(x)), derivative(group.exp(x).double())
        error = (given - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
        assert (error < 1e-5).all()
    if angle <= (2.5 if dtype == torch.float32 else math.pi - 1e-2):
        J = jacobian_of_round_trip(group, x)
        tolerance = 1e-5 if dtype == torch.float32 else 1e-10
        assert (J - torch.eye(group.dim, dtype=dtype)).abs().max() < tolerance


@pytest.mark.parametrize("group", WITH_PARITY, ids=str)
def test_polar_round_trip_has_the_identity_as_jacobian(group: Group, dtype: torch.dtype) -> None:
    for angle in ANGLES:
        J = jacobian_of_round_trip(group, with_angle(group, angle, 20, dtype), "polar")
        eye = torch.eye(group.dim, dtype=dtype)
        tolerance = 1e-5 if dtype == torch.float32 else 1e-10
        assert (J[:, : group.dim] - eye).abs().max() < tolerance
        assert (J[:, group.dim :] == 0).all()  # the parity is locally constant


def probes(group: Group) -> dict[str, Tensor]:
    """Coordinates to check gradients at: identity, generic, next to the cut."""
    generator = torch.Generator().manual_seed(2)
    x = sample_coordinates(group, 3, generator=generator, dtype=torch.float64)
    near_cut = with_angle(group, math.pi - 1e-2, 3, torch.float64)
    return {"identity": torch.zeros(1, group.dim).double(), "generic": x, "cut": near_cut}


@pytest.mark.parametrize("where", ["identity", "generic", "cut"])
def test_gradcheck_and_double_backward(any_group: Group, where: str) -> None:
    x = probes(any_group)[where].requires_grad_()
    g = any_group.exp(x).detach()

    def log_along_the_group(y: Tensor) -> Tensor:
        return any_group.log(any_group.compose(g, any_group.exp(y)))

    y = torch.zeros_like(x).requires_grad_()
    torch.autograd.gradcheck(any_group.exp, x, atol=1e-5, rtol=1e-4)
    torch.autograd.gradcheck(log_along_the_group, y, eps=1e-7, atol=1e-5, rtol=1e-3)
    if where != "cut":
        torch.autograd.gradgradcheck(any_group.exp, x, fast_mode=True, atol=1e-5, rtol=1e-4)
        torch.autograd.gradgradcheck(log_along_the_group, y, fast_mode=True, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("where", ["identity", "generic", "cut"])
def test_gradcheck_in_all_directions_of_the_matrix(group: Group, where: str) -> None:
    g = group.exp(probes(group)[where]).requires_grad_()
    torch.autograd.gradcheck(group.log, g, eps=1e-7, atol=1e-5, rtol=1e-3)
    if where != "cut":
        torch.autograd.gradgradcheck(group.log, g, fast_mode=True, atol=1e-5, rtol=1e-3)


def test_forward_mode_agrees_with_reverse_mode(any_group: Group) -> None:
    x = probes(any_group)["generic"][0]

    def f(v: Tensor) -> Tensor:
        return any_group.log(any_group.exp(v) @ any_group.exp(0.1 * v.flip(0)))

    torch.testing.assert_close(torch.func.jacfwd(f)(x), torch.func.jacrev(f)(x))


def test_double_backward_next_to_the_cut(group: Group) -> None:
    x = with_angle(group, math.pi - 0.1, 2, torch.float64)
    g = group.exp(x).detach().requires_grad_()
    torch.autograd.gradgradcheck(group.log, g, eps=1e-7, fast_mode=True, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("group", WITH_PARITY, ids=str)
def test_polar_gradcheck_at_identity_and_repeated_singular_values(group: Group) -> None:
    rotation = group.exp(with_angle(group, 0.7, 1, torch.float64) * _rotation_only(group))
    for g in (group.identity(1, dtype=torch.float64), rotation, 3.0 * rotation):
        g = g.detach().requires_grad_()
        torch.autograd.gradcheck(lambda p: group.log(p, "polar"), g, atol=1e-5, rtol=1e-4)
        torch.autograd.gradgradcheck(
            lambda p: group.log(p, "polar"), g, fast_mode=True, atol=1e-4, rtol=1e-3
        )


def _rotation_only(group: Group) -> Tensor:
    keep = [float(block.kind == "rotation") for block in group.blocks for _ in range(block.dim)]
    return torch.tensor(keep, dtype=torch.float64)


def test_relative_poses_have_gradients_where_they_coincide(any_group: Group) -> None:
    g = any_group.random(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    g.requires_grad_()
    rel = lieattn.relations(any_group, g, g)
    (gradient,) = torch.autograd.grad(rel.coords.square().sum(), g)
    assert gradient.isfinite().all()
