"""What the tests of the native backend share: builds, cases, and the rule of twice the error."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group
from lieattn.groups import _affine
from lieattn.ops.native import call as _native_call
from lieattn.ops.native import library as _native_library

LIBRARIES = {library.build: library for library in _native_library.available()}
GROUPS = [la.get_group(name) for name in _native_call.CODES]
EPS = torch.finfo(torch.float32).eps
NAMES = ("out", "coords", "d_poses", "d_keys", "d_values", "d_weights", "d_bias")

needs_kernel = pytest.mark.skipif(not LIBRARIES, reason="the kernel was not built")


def use(monkeypatch: pytest.MonkeyPatch, library: _native_library.Library | None) -> None:
    monkeypatch.setattr(_native_call, "LIBRARY", library)
    monkeypatch.setattr(_native_call, "MISSING", None if library else "gone")


# ---- cases -------------------------------------------------------------------------------------


def ragged(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    """Sets of different sizes: their last keys are padding."""
    return (torch.arange(Nk) < torch.tensor([Nk, Nk - Nk // 3])[:B, None])[:, None, None]


def causal(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return torch.ones(Nq, Nk, dtype=torch.bool).tril()


def arbitrary(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.rand(B, H, Nq, Nk, generator=generator) < 0.5


def strided(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(B, H, Nk, Nq).mT


def expanded(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(1, 1, Nq, Nk).expand(B, H, Nq, Nk)


def of_queries(B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return arbitrary(B, 1, Nq, 1)


MASKS = {f.__name__: f for f in (ragged, causal, arbitrary, strided, expanded, of_queries)}


@dataclass(frozen=True)
class Case:
    """What is asked of the operator; all of it random but for the shapes."""

    group: str = "SE3"
    poses: str = "generic"
    B: int = 2
    H: int = 3
    Nq: int = 13
    Nk: int = 0  # the same set as the queries
    width: int = 5
    mask: str = ""
    bias: tuple[int, ...] | None = None
    bias_gradient: bool = True
    exclude_self: bool = True
    margin: float = 0.0
    weight: float = 1.0  # times those of translations and turns alike

    def inputs(self, seed: int) -> dict[str, Tensor]:
        """Leaves of the operator, in float32."""
        generator = torch.Generator().manual_seed(seed)
        random = partial(torch.randn, generator=generator, dtype=torch.float64)
        group, keys = la.get_group(self.group), self.Nk or self.Nq
        q = sample(group, self.poses, self.B, self.Nq, generator)
        k = sample(group, self.poses, self.B, keys, generator) if self.Nk else q
        scales = {"near": 1e6, "millimetres": 1e6, "kilometres": 1e-6, "sizes": 1e-6}
        scale = scales.get(self.poses, 1.0)
        weights = self.weight * (0.5 + torch.rand(self.H, len(group.blocks), generator=generator))
        moving = group.blocks[0].kind == "translation"
        weights[:, : 1 if moving and self.poses != "near" else None] *= (
            scale if moving or self.poses == "near" else 1
        )
        found = {"q": q, "k": k, "values": random(self.B, self.H, keys, self.width)}
        found["weights"] = weights
        if self.bias is not None:
            found["bias"] = random(*self.bias)
        return {name: x.float() for name, x in found.items()}

    def run(self, backend: str, dtype: torch.dtype, seed: int) -> list[Tensor]:
        """Both results and the gradients of all inputs."""
        x = {name: t.to(dtype).requires_grad_() for name, t in self.inputs(seed).items()}
        if "bias" in x and not self.bias_gradient:
            x["bias"].requires_grad_(False)
        shape = self.B, self.H, self.Nq, self.Nk or self.Nq
        out = la.lie_attention(
            self.group,
            x["q"],
            x["k"],
            x["values"],
            x["weights"],
            MASKS[self.mask](*shape) if self.mask else None,
            self.exclude_self and not self.Nk,
            backend=backend,
            bias=x.get("bias"),
            margin=self.margin,
        )
        generator = torch.Generator().manual_seed(seed + 1000)
        random = partial(torch.randn, generator=generator, dtype=torch.float64)
        cotangents = [random(t.shape).to(dtype) for t in out]
        leaves = [t for t in x.values() if t.requires_grad]
        return [*(t.detach() for t in out), *torch.autograd.grad(out, leaves, cotangents)]


def sample(group: Group, kind: str, B: int, N: int, generator: torch.Generator) -> Tensor:
    """Poses as they are easy and hard."""
    poses = group.random(B, N, generator=generator, dtype=torch.float64)
    random = partial(torch.randn, generator=generator, dtype=torch.float64)
    if kind == "near":  # a thousandth apart, somewhere
        return group.compose(poses[:, :1], group.exp(1e-3 * random(B, N, group.dim)))
    if kind == "cut":  # every second one half a turn from the one before it, nearly
        x, at = 0.3 * random(B, N // 2, group.dim), 0
        for block in group.blocks:
            part = x[..., at : at + block.dim]
            if block.kind == "rotation":
                rest = 10 ** (-1 - 2 * torch.rand(B, N // 2, 1, generator=generator))
                part *= math.sqrt(2) * (math.pi - rest) / part.norm(dim=-1, keepdim=True)
            at += block.dim
        poses[:, 1 : 2 * (N // 2) : 2] = group.compose(poses[:, 0 : 2 * (N // 2) : 2], group.exp(x))
        return poses
    if kind == "sizes":  # frames from a thousandth to a thousand across
        size = 10 ** (6 * torch.rand(B, N, 1, 1, generator=generator, dtype=torch.float64) - 3)
        poses[..., : group.n, : group.n] *= size
    scale = {"millimetres": 1e-3, "kilometres": 1e3}.get(kind, 1.0)
    if group.blocks[0].kind == "translation":
        poses[..., : group.n, group.n] *= scale
    return poses


def attend(
    poses: Tensor, values: Tensor, backend: str = "native", group: Group = la.SE3, **options: object
) -> list[Tensor]:
    leaves = [poses.clone().requires_grad_(), values.clone().requires_grad_()]
    weights = torch.ones(values.shape[-3], len(group.blocks), requires_grad=True)
    out = la.lie_attention(group, leaves[0], *leaves, weights, backend=backend, **options)
    ones = [torch.ones_like(x) for x in out]
    return [*out, *torch.autograd.grad(out, [*leaves, weights], ones)]


# ---- the rule ----------------------------------------------------------------------------------


@cache
def reference(case: Case, dtype: torch.dtype, seed: int) -> list[Tensor]:
    """The reference with all of its steps in the given precision.

    Of Aff(n) it computes geometry in float64 even for float32 poses. The rule compares with what
    the same formulas give in single precision.
    """
    # Blocks are the reference, in less memory.
    same = {"widen": lambda x: x, "widened": lambda x: x}
    with patch.multiple(_affine, **same):
        return case.run("tiled" if case.Nq > 500 else "reference", dtype, seed)


def squares(x: Tensor, truth: Tensor) -> float:
    return float((x.double() - truth).square().sum())


def on_threads(count: int, work: Callable[[], list[Tensor]]) -> list[Tensor]:
    torch.set_num_threads(count)
    try:
        return work()
    finally:
        torch.set_num_threads(1)


def check(case: Case, seeds: range = range(8), threads: int = 1) -> None:
    """Errors against float64, pooled over seeds, are at most twice those of the reference."""
    ours, theirs, size = ([0.0] * len(NAMES) for _ in range(3))
    for seed in seeds:
        truth = reference(case, torch.float64, seed)
        single = reference(case, torch.float32, seed)
        found = on_threads(threads, partial(case.run, "native", torch.float32, seed))
        for i, (x, y, z) in enumerate(zip(found, single, truth, strict=True)):
            assert x.dtype == torch.float32
            assert x.shape == z.shape
            ours[i] += squares(x, z)
            theirs[i] += squares(y, z)
            size[i] += squares(z, torch.zeros_like(z))
    for name, a, b, norm in zip(NAMES, ours, theirs, size, strict=True):
        # One rounding of the result: where there is little to sum, the reference may have none.
        floor = EPS * math.sqrt(norm)
        report = f"{name} of {case}: {math.sqrt(a):.2e}, reference {math.sqrt(b):.2e}"
        assert math.sqrt(a) <= 2 * math.sqrt(b) + floor + 1e-30, report
