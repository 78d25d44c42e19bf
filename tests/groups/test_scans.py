"""Products of thousands of steps."""

import pytest
import torch

from every_group import ALL_GROUPS
from lieattn import SE2, SE3, SO3, Group, Sim3

STEPS = 9000


def small_steps(group: Group, count: int, size: float) -> torch.Tensor:
    x = torch.randn(count, group.dim, generator=torch.Generator().manual_seed(0)).double()
    for kind in ("scale", "shear", "other"):
        x[:, group.coordinates_of(kind)] *= 0.01
    return group.exp(size * x)


def in_turn(group: Group, steps: torch.Tensor) -> torch.Tensor:
    products = [steps[0]]
    for step in steps[1:]:
        products.append(group.compose(products[-1], step))
    return torch.stack(products)


def test_products_are_those_of_a_loop(any_group: Group, dtype: torch.dtype) -> None:
    steps = small_steps(any_group, 13, 0.1).to(dtype)
    found = any_group.cumulative(steps)
    assert found.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    truth = in_turn(any_group, steps.double())
    torch.testing.assert_close(found.double(), truth, rtol=tolerance, atol=tolerance)
    batch = any_group.cumulative(torch.stack((steps, steps.flip(0))))
    torch.testing.assert_close(batch[0], found)
    assert any_group.cumulative(steps[:0]).shape == steps[:0].shape


@pytest.mark.parametrize("group", [SO3, SE2, SE3, Sim3], ids=str)
def test_nine_thousand_steps_stay_on_the_group(group: Group) -> None:
    steps = small_steps(group, STEPS, 0.1).float()
    found = group.cumulative(steps)
    assert group.contains(found).all()
    truth = in_turn(group, group.project(steps.double()))
    size = truth.abs().amax((-2, -1))
    assert ((found - truth).abs().amax((-2, -1)) <= 1e-5 * size).all()
    # Without the way back, rounding alone takes the products off.
    plain = in_turn(group, steps)
    drift = (plain - truth).abs().amax((-2, -1)) / size
    assert drift.max() > 3 * ((found - truth).abs().amax((-2, -1)) / size).max()


def test_every_registered_group_keeps_its_products(group: Group) -> None:
    found = group.cumulative(small_steps(group, 1000, 0.05).float())
    assert group.contains(found).all()


def test_gradients_pass_the_scan() -> None:
    for name in ("SE2", "Sim3", "Heisenberg"):
        group = ALL_GROUPS[name]
        x = 0.1 * torch.randn(4, group.dim, generator=torch.Generator().manual_seed(0)).double()

        def products(x: torch.Tensor, group: Group = group) -> torch.Tensor:
            return group.cumulative(group.exp(x))

        assert torch.autograd.gradcheck(products, x.requires_grad_())


def test_steps_need_a_dimension() -> None:
    with pytest.raises(
        ValueError, match=r"steps must have shape \[\.\.\., N, 4, 4\], got \[4, 4\]"
    ):
        SE3.cumulative(torch.eye(4))
