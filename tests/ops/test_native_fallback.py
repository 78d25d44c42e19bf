"""What the native backend leaves to the reference, or declines with a reason."""

import logging
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn.ops import Request, dispatch, native
from lieattn.ops.native import call as _native_call
from native_cases import (
    GROUPS,
    Case,
    attend,
    needs_kernel,
    use,
)

pytestmark = pytest.mark.usefixtures("seeded")


def test_poses_that_are_not_for_the_kernel_get_the_references_answer(
    build: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dispatch, "_logged", set())
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    not_a_number, sheared, far = poses.clone(), poses.clone(), poses.clone()
    not_a_number[0, 3, 1, 1] = torch.nan
    sheared[1, 2, 0, 0] += 0.1
    far[0, 1, 0, 3] = 1e19
    with caplog.at_level(logging.DEBUG, "lieattn"):
        for odd, of_set in ((not_a_number, 0), (sheared, 1), (far, 0)):
            only_that_set_is_the_references(la.SE3, odd, values, of_set)
    assert caplog.text.count("native kernel passed over") == 1


def only_that_set_is_the_references(
    group: la.Group, poses: Tensor, values: Tensor, of_set: int
) -> None:
    """The other sets have the kernel's answer, as if they had been alone; nothing is NaN."""
    *found, d_weights = attend(poses, values, "native", group)
    for i in range(len(poses)):
        backend = "reference" if i == of_set else "native"
        *alone, _ = attend(poses[i : i + 1], values[i : i + 1], backend, group)
        for x, y in zip(found, alone, strict=True):
            assert torch.equal(x[i : i + 1], y)
            assert y.isfinite().all()
    assert d_weights.isfinite().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", _native_call.CODES)
def test_poses_that_are_not_finite_get_the_references_answer(
    build: str, name: str, bad: float
) -> None:
    group = la.get_group(name)
    poses, values = group.random(2, 7), torch.randn(2, 3, 7, 5)
    for column in (0, -1):
        odd = poses.clone()
        odd[1, 2, 0, column] = bad
        only_that_set_is_the_references(group, odd, values, 1)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_biases_that_are_not_for_the_kernel_get_the_references_answer(
    build: str, bad: float
) -> None:
    poses, values, bias = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5), torch.zeros(7, 7)
    bias[2, 3] = bad
    a, b = (attend(poses, values, backend, bias=bias) for backend in ("native", "reference"))
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


def test_second_derivatives_are_the_references(build: str) -> None:
    case = Case(Nq=5, bias=(5, 5))

    def second(backend: str) -> list[Tensor]:
        x = [t.clone().requires_grad_() for t in case.inputs(0).values()]
        q, k, values, weights, bias = x
        out = la.lie_attention("SE3", q, k, values, weights, None, True, backend=backend, bias=bias)
        loss = out[0].sin().sum() + out[1].cos().sum()
        first = torch.autograd.grad(loss, x, create_graph=True)
        return list(torch.autograd.grad(sum(t.square().sum() for t in first), x))

    for a, b in zip(second("native"), second("reference"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


# ---- what is declined --------------------------------------------------------------------------


def request(**changes: object) -> Request:
    poses = la.SE3.random(1, 3)
    asked = Request(la.SE3, poses, poses, torch.zeros(1, 2, 3, 4), torch.ones(2, 2))
    return replace(asked, **changes)


@needs_kernel
def test_auto_takes_it() -> None:
    assert dispatch.choose(request()) is native
    assert dispatch.choose(request(chart="polar", margin=0.3)) is native


@needs_kernel
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group": la.get_group("Sim2")}, "not Sim"),
        ({"group": la.matrix_group("SE3", la.SE3.basis())}, "not SE3"),
        ({"weights": lambda w: w}, "block weights"),
        ({"neighbours": torch.zeros(1, 3, 1, dtype=torch.int64)}, "neighbours"),
        ({"q_content": torch.zeros(1, 2, 3, 4)}, "contents"),
        ({"scale": torch.ones(1, 1, 6)}, "scales"),
        ({"first": 2, "exclude_self": True}, "blocks"),
        ({"margin": -1.0}, "margins from 0 on"),
        ({"margin": math.nan}, "margins from 0 on"),
        ({"dtype": torch.float64}, "float64"),
        ({"q_poses": la.SE3.random(1, 3, dtype=torch.float64)}, "float64"),
        ({"weights": torch.ones(2, 2, dtype=torch.float64)}, "float64"),
        ({"values": torch.zeros(1, 2, 3, 4, dtype=torch.float64)}, "values are torch.float64"),
        ({"weights": torch.ones(2, 2, device="meta")}, "on cpu and meta"),
    ],
)
def test_what_is_declined_is_declined_with_a_reason(change: dict[str, object], reason: str) -> None:
    assert reason in str(dispatch.refusal(request(**change), "native"))


@needs_kernel
def test_the_polar_chart_is_known_where_it_is_the_principal_one() -> None:
    assert native.unsupported(request(chart="polar")) is None
    for group in GROUPS:
        if group.chart_blocks("polar") != group.blocks:
            poses = group.random(1, 3)
            asked = request(group=group, q_poses=poses, k_poses=poses, chart="polar")
            assert "not the polar one" in str(native.unsupported(asked))


def test_without_a_kernel_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, None)
    assert native.unsupported(request()) == "gone."
    assert dispatch.choose(request()) is not native
