"""Pruning: sums and gradients stay within the bound of the guide."""

import math
from functools import partial

import pytest
import torch
from pruning_cases import MASKS, PLACES, TILE, WEIGHTS, Scene, check, exact_gradients
from torch import Tensor

import lieattn as la


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", ["SE2", "SE3"])
def test_errors_are_within_the_bound(build: str, name: str, places: str) -> None:
    check(Scene(name, places))
    check(Scene(name, places, turns=0, exclude_self=False, seed=1))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ["SE2", "SE3"])
def test_heads_of_different_weights(build: str, name: str, weights: str) -> None:
    check(Scene(name, weights=weights))
    check(Scene(name, "heap", weights=weights, seed=1))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("places", ["volume", "outlier"])
def test_masks(build: str, places: str, mask: str) -> None:
    check(Scene("SE2", places, mask=mask))
    check(Scene("SE3", places, mask=mask, Nk=200, turns=0), (1e-2,))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_of_translations(build: str, scale: float) -> None:
    check(Scene(scale=scale, places="clusters"))
    check(Scene("SE2", scale=scale, weights="apart"))


@pytest.mark.parametrize(("Nq", "Nk"), [(65, 0), (1, 700), (700, 65), (129, 640), (511, 0)])
def test_sets_of_any_size(build: str, Nq: int, Nk: int) -> None:
    check(Scene("SE2", Nq=Nq, Nk=Nk, B=1))
    check(Scene("SE3", Nq=Nq, Nk=Nk, B=2, turns=0), (1e-2,))


def test_pairs_near_the_cut(build: str) -> None:
    check(Scene("SE2", margin=2.0))


@pytest.mark.parametrize("rotation", [0.0, -0.1, -2.0])
def test_the_bound_is_nearly_reached(build: str, rotation: float) -> None:
    """Far keys that weigh what they can and have other values, on either side of the tolerance.

    They are turned about the axis they lie on: u is then as short as the distance. Turns of 3.14
    make the most of a negative weight.
    """
    prune, near, far = 0.01, TILE, 4 * TILE
    values = torch.cat([torch.full((near,), -1.0), torch.ones(far)])[None, None, :, None]
    turned = la.SE3.exp(torch.tensor([0.0, 0, 0, 0, 0, 3.14 * math.sqrt(2)]))
    on_values, on_coords = [], []
    for square in torch.linspace(5, 9, 41) - 2 * 3.14**2 * rotation:
        g = torch.eye(4).repeat(1, near + far, 1, 1)
        g[:, near:] = turned
        g[:, near:, 2, 3] = square.sqrt()
        weights = torch.tensor([[1.0, rotation]])
        run = partial(la.lie_attention, "SE3", g[:, :near], g, values, weights, None, False)
        out, coords = run(backend="native", prune=prune)
        exact_out, exact_coords = run(backend="reference")
        on_values.append(float((out - exact_out).abs().max() / (2 * prune)))
        moved = (coords - exact_coords)[..., :3].norm(dim=-1)
        on_coords.append(float((moved / (prune * (coords[..., :3].norm(dim=-1) + 1))).max()))
    assert max(on_values) <= 1
    assert max(on_coords) <= 1
    assert max(on_coords) > 0.5
    assert max(on_values) > 0.1  # coordinates take the more of the tolerance the farther keys are


def test_rows_whose_near_keys_are_masked_see_far_ones(build: str) -> None:
    g = torch.eye(4).repeat(1, 4 * TILE, 1, 1)
    g[:, 2 * TILE :, 0, 3] = 10
    values = (torch.arange(4 * TILE) >= 2 * TILE).float()[None, None, :, None]
    mask = torch.ones(4 * TILE, 4 * TILE, dtype=torch.bool)
    mask[5, : 2 * TILE] = False
    mask[7] = False
    out, coords = la.lie_attention(
        "SE3", g, g, values, torch.ones(1, 2), mask, backend="native", prune=0.5
    )
    assert out[0, 0, 5] == 1
    assert coords[0, 0, 5, 0] == 10
    assert out[0, 0, 7] == 0
    assert out[0, 0, 6] == 0


# ---- gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SE2", "SE3"])
@pytest.mark.parametrize("mask", ["", "ragged", "arbitrary"])
def test_gradients_are_close(build: str, name: str, mask: str) -> None:
    """By their size, within 30 times the share that was left out: logits there are below -log."""
    scene = Scene(name, mask=mask, weights="apart")
    assert scene.share(1e-3) > 0.05
    for prune in (1e-2, 1e-4):
        found, plain = scene.gradients(prune), scene.gradients(0.0)
        for x, y, truth in zip(found, plain, exact_gradients(scene), strict=True):
            rounding = (y.double() - truth).norm()
            assert (x.double() - truth).norm() <= 30 * prune * truth.norm() + 4 * rounding


def test_gradients_are_those_of_the_keys_that_were_kept(build: str) -> None:
    """Two clusters that see nothing of each other, told to each other by a mask, or not at all."""
    generator = torch.Generator().manual_seed(0)
    g = la.SE3.random(1, 4 * TILE, generator=generator)
    g[..., :3, 3] *= 0.2
    second = torch.arange(4 * TILE) % 2 == 1
    g[:, second, 0, 3] += 5
    values = torch.randn(1, 2, 4 * TILE, 8, generator=generator)

    def run(prune: float, mask: Tensor | None) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in (g, values, torch.full((2, 2), 0.3))]
        poses, v, weights = leaves
        sums = la.lie_attention(
            "SE3", poses, poses, v, weights, mask, backend="native", prune=prune
        )
        cotangents = [torch.linspace(-1, 1, x.numel()).view_as(x) for x in sums]
        return [*sums, *torch.autograd.grad(sums, leaves, cotangents)]

    apart = run(0.0, second[:, None] == second)
    together = run(0.0, None)
    for x, y, z in zip(run(0.5, None), apart, together, strict=True):
        assert (x - y).norm() <= 1e-5 * y.norm()
        assert (z - y).norm() > 1e-4 * y.norm()  # else this shows nothing


def test_both_passes_leave_out_the_same(build: str) -> None:
    """Weights sum to one in the backward pass too, wherever among equally far tiles there is room.

    For outputs of gradient one, those of the values are the sums of their weights.
    """
    g = torch.eye(3).repeat(1, 8 * TILE, 1, 1)
    for distance in torch.linspace(2, 3, 101):
        g[:, TILE:, 0, 2] = distance
        values = torch.zeros(1, 1, 8 * TILE, 1, requires_grad=True)
        out, _ = la.lie_attention(
            "SE2", g, g, values, torch.ones(1, 2), backend="native", prune=0.01
        )
        (weights,) = torch.autograd.grad(out.sum(), values)
        torch.testing.assert_close(weights.sum(), torch.tensor(8.0 * TILE))
