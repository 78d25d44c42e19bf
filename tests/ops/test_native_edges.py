"""The native backend where there is little, nothing, or too much to attend to."""

from functools import partial

import pytest
import torch
from torch import Tensor

import lieattn as la
from native_cases import Case, attend, needs_kernel, on_threads

pytestmark = pytest.mark.usefixtures("seeded")


def test_a_row_with_nothing_to_attend_to_is_zero_without_gradient(build: str) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    mask = torch.ones(2, 1, 7, 7, dtype=torch.bool)
    mask[0, :, 2] = False
    out, coords, *_ = attend(poses, values, mask=mask)
    assert not out[0, :, 2].any()
    assert not coords[0, :, 2].any()
    assert out[1, :, 2].all()
    for nothing in (
        {"mask": torch.zeros(7, dtype=torch.bool)},
        {"bias": torch.full((1, 1), -torch.inf)},
    ):
        assert all(not x.any() for x in attend(poses, values, **nothing))
    assert all(not x.any() for x in attend(poses[:, :1], values[:, :, :1]))


def test_values_that_are_masked_do_not_leak(build: str) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5)
    mask = torch.tensor([1, 1, 1, 0, 1, 1, 0], dtype=torch.bool)
    loud = torch.where(mask[:, None], values, 1e30)
    for shaped in (mask, mask.expand(7, 7).contiguous()):
        quiet, same = attend(poses, values, mask=shaped), attend(poses, loud, mask=shaped)
        assert all(map(torch.equal, quiet, same))


@pytest.mark.parametrize(
    "shape", [(2, 3, 0, 5), (0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0), (2, 3, 1, 5)], ids=str
)
def test_nothing_at_all(build: str, shape: tuple[int, ...]) -> None:
    B, _, N, _ = shape
    found = attend(la.SE3.random(B, N), torch.randn(shape))
    expected = attend(la.SE3.random(B, N), torch.randn(shape), "reference")
    assert [x.shape for x in found] == [x.shape for x in expected]
    assert all(x.isfinite().all() for x in found)


def test_queries_without_keys_are_zero(build: str) -> None:
    q, k = la.SE3.random(2, 4), la.SE3.random(2, 0)
    values, bias = torch.zeros(2, 3, 0, 5), torch.zeros(4, 0)
    out = la.lie_attention(
        la.SE3, q, k, values, torch.ones(3, 2), exclude_self=False, backend="native", bias=bias
    )
    assert [x.shape for x in out] == [(2, 3, 4, 5), (2, 3, 4, 6)]
    assert not any(x.any() for x in out)


@pytest.mark.parametrize(
    ("poses_batch", "values_batch"),
    [((), ()), ((), (2,)), ((2, 3), (2, 3)), ((1,), (4,)), ((3, 1), (2,)), ((2,), (2,))],
)
def test_batches_of_any_shape_broadcast(
    build: str, poses_batch: tuple[int, ...], values_batch: tuple[int, ...]
) -> None:
    poses, values = la.SE3.random(*poses_batch, 7), torch.randn(*values_batch, 3, 7, 5)
    batch = torch.broadcast_shapes(poses_batch, values_batch)
    for shape in ((7,), (*batch, 1, 1, 7), (*batch, 3, 7, 7)):
        mask = torch.rand(shape) < 0.7
        a, b = (attend(poses, values, backend, mask=mask) for backend in ("native", "reference"))
        for x, y in zip(a, b, strict=True):
            torch.testing.assert_close(
                x, y, rtol=1e-4, atol=1e-4 * (1 + y.detach().abs().max().item())
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_of_half_precision_come_back_as_such(build: str, dtype: torch.dtype) -> None:
    poses, values = la.SE3.random(2, 7), torch.randn(2, 3, 7, 5, dtype=dtype)
    out, coords, _, d_values, _ = attend(poses, values)
    assert (out.dtype, coords.dtype, d_values.dtype) == (dtype, torch.float32, dtype)
    expected = attend(poses, values.float())
    assert torch.equal(out, expected[0].to(dtype))


def test_gradients_come_for_what_needs_them(build: str) -> None:
    inputs = Case(Nk=9, bias=(1, 9)).inputs(0)
    everything = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    whole = gradients_of(everything)
    for alone, expected in zip(inputs, whole, strict=True):
        leaves = {name: x.clone().requires_grad_(name == alone) for name, x in inputs.items()}
        assert torch.equal(gradients_of(leaves)[0], expected)


def gradients_of(x: dict[str, Tensor]) -> list[Tensor]:
    q, k, values, weights, bias = x.values()
    out = la.lie_attention(
        "SE3", q, k, values, weights, exclude_self=False, bias=bias, backend="native"
    )
    leaves = [t for t in x.values() if t.requires_grad]
    return list(torch.autograd.grad(out, leaves, [t.detach().cos() for t in out]))


@pytest.mark.parametrize("bias", [None, (1, 1, 1, 300), (300, 300)], ids=str)
def test_two_runs_are_equal_to_the_last_bit(build: str, bias: tuple[int, ...] | None) -> None:
    case = Case(B=2, H=2, Nq=300, width=16, bias=bias)
    for threads in (1, 2):
        work = partial(case.run, "native", torch.float32, 0)
        runs = [on_threads(threads, work) for _ in range(2)]
        assert all(map(torch.equal, *runs))


def test_results_do_not_depend_on_which_thread_was_faster(build: str) -> None:
    """One row in a hundred weighs its keys so little that its block is done again."""
    poses, values = la.SE3.random(1, 700), torch.randn(1, 3, 700, 5)
    poses[:, ::100, :3, 3] *= 30
    work = partial(attend, poses, values)
    first, *others = [on_threads(2, work) for _ in range(12)]
    for other in others:
        assert all(map(torch.equal, first, other))


@needs_kernel
@pytest.mark.parametrize("group", [la.SO2, la.SE2, la.SO3, la.SE3, la.Aff2, la.Aff3], ids=str)
def test_exact_half_turns_are_decided_as_by_the_reference(group: la.Group) -> None:
    """Among other poses, without a margin. Of SO(n) and SE(n) both are logarithms: w may differ."""
    turn = group.identity(dtype=torch.float32).clone()
    turn[0, 0] = turn[1, 1] = -1
    generator = torch.Generator().manual_seed(0)
    poses = group.random(40, 6, generator=generator)
    poses[:, 3:] = group.compose(poses[:, :3], turn)
    asked = {"mask": torch.ones(6, 6).tril().bool(), "exclude_self": True}
    values, weights = torch.eye(6).expand(40, 1, 6, 6), torch.full((1, len(group.blocks)), 0.02)
    found = {}
    for backend in ("reference", "tiled", "native"):
        g = poses.clone().requires_grad_()
        out, coords = la.lie_attention(group, g, g, values, weights, **asked, backend=backend)
        (gradient,) = torch.autograd.grad(out.square().sum() + coords.sum(), g)
        assert gradient.isfinite().all()
        found[backend] = out
    for backend in ("tiled", "native"):
        assert torch.equal(found[backend] > 0, found["reference"] > 0)
        torch.testing.assert_close(found[backend], found["reference"], rtol=1e-3, atol=1e-4)
