"""The native backend under compilation, export and the transforms of torch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import lieattn as la
from lieattn.ops import native  # noqa: F401, registers the operators
from native_cases import Case, needs_kernel

pytestmark = pytest.mark.usefixtures("seeded")


@needs_kernel
@pytest.mark.parametrize("options", [(), ((2, 1, 9, 9), (1, 1, 1, 9))], ids=["plain", "pairs"])
def test_torch_accepts_the_ops(options: tuple[tuple[int, ...], ...]) -> None:
    inputs = list(Case(Nq=9).inputs(0).values())
    leaves = [x.requires_grad_() for x in inputs]
    mask = torch.rand(options[0]) < 0.7 if options else None
    bias = torch.randn(options[1], requires_grad=True) if options else None
    arguments = ("SE3", *leaves, mask, bias, True, 0.1, 0.0)
    torch.library.opcheck(torch.ops.lieattn.native_forward.default, arguments)
    results = [x.detach() for x in torch.ops.lieattn.native_forward(*arguments)]
    plain = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
    cotangents = [torch.randn_like(x) for x in results[:2]]
    needs = True, False, bias is not None
    everything = (*plain, *results, *cotangents, *needs)
    torch.library.opcheck(torch.ops.lieattn.native_backward.default, everything)


@needs_kernel
def test_torch_sees_the_op_where_it_looks_and_results_are_the_same() -> None:
    q, _, values, weights = Case(Nq=9).inputs(0).values()
    attend = partial(la.lie_attention, "SE3", q, q, values, weights, backend="native")
    expected = attend()
    seen: list[str] = []

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Listening():
        listened = attend()
    assert "lieattn.native_forward.default" in seen
    with torch.profiler.profile() as profile:
        profiled = attend()
    assert "lieattn::native_forward" in {event.key for event in profile.key_averages()}
    values.requires_grad_()
    differentiable = attend()
    assert all(x.requires_grad for x in differentiable)
    with torch.no_grad():
        plain = attend()
    for results in (listened, profiled, differentiable, plain):
        assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@needs_kernel
def test_it_compiles_whole() -> None:
    inputs = [x.requires_grad_() for x in Case(Nq=9, bias=(9, 9)).inputs(0).values()]

    def run(q: Tensor, k: Tensor, values: Tensor, weights: Tensor, bias: Tensor) -> list[Tensor]:
        out = la.lie_attention("SE3", q, k, values, weights, None, True, bias=bias, margin=0.1)
        return [2 * x for x in out]

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    a, b = compiled(*inputs), run(*inputs)
    ones = [torch.ones_like(x) for x in b]
    a += torch.autograd.grad(a, inputs, ones)
    b += torch.autograd.grad(b, inputs, ones)
    assert all(map(torch.equal, a, b))


@needs_kernel
@pytest.mark.parametrize("backend", ["auto", "native"])
def test_programs_are_exported_with_the_kernel_if_it_is_named(backend: str) -> None:
    class Layer(torch.nn.Module):
        def forward(self, poses: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            weights, options = torch.ones(3, 2), {"exclude_self": True, "backend": backend}
            return la.lie_attention(la.SE3, poses, poses, values, weights, **options)

    tokens = torch.export.Dim("tokens", min=2)
    example = la.SE3.random(2, 5), torch.randn(2, 3, 5, 4)
    program = torch.export.export(Layer(), example, dynamic_shapes=({1: tokens}, {2: tokens}))
    assert ("native_forward" in str(program.graph)) == (backend == "native")
    inputs = la.SE3.random(2, 8), torch.randn(2, 3, 8, 4)
    for x, y in zip(program.module()(*inputs), Layer()(*inputs), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


@needs_kernel
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_transforms_of_torch_func_are_left_to_others(compiled: bool) -> None:
    poses, weights = la.SE3.random(5), torch.ones(3, 2)
    values = torch.randn(4, 3, 5, 2)

    def out(values: Tensor, backend: str = "auto") -> Tensor:
        options = {"exclude_self": True, "backend": backend}
        return la.lie_attention(la.SE3, poses, poses, values, weights, **options)[0]

    mapped: Callable[[Tensor], Tensor] = torch.func.vmap(out)
    if compiled:
        torch._dynamo.reset()
        mapped = torch.compile(mapped, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(mapped(values), out(values, "reference"))
    if compiled:
        return
    tangent = torch.func.jvp(out, (values[0],), (values[1],))[1]
    torch.testing.assert_close(tangent, out(values[1], "reference"))
    with pytest.raises(ValueError, match=r"torch\.func"):
        torch.func.vmap(partial(out, backend="native"))(values)
