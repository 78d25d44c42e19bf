"""Who takes part: plain attention, the backends of `lie_attention`, the paper-literal form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ...groups import get_group
from ...ops import BACKENDS, lie_attention
from .cases import Case, Contestant, Problem
from .literal import literal_attention
from .peers import PEERS

SDPA, LITERAL, REFERENCE = "sdpa", "literal", "reference"
CHECKED, TOLERANCE = 16, 1e-3  # poses on which a backend has to agree with the reference
# What a backend may say when it cannot serve: not built, no such device, no such group.
REFUSALS = (RuntimeError, ValueError, ImportError, OSError)


def everybody(backends: Sequence[str], peers: bool) -> dict[str, Contestant]:
    """Contestants by name, in the order of tables."""
    listed = [
        Contestant(
            SDPA,
            "SDPA",
            "torch.nn.functional.scaled_dot_product_attention, gradients of q, k and v",
            _sdpa,
            passes=("forward", "backward"),
        ),
        *(_backend(name) for name in backends),
        Contestant(
            LITERAL,
            "paper-literal",
            "the paper's formula in eager torch, with a value W_V [h; w] for every pair",
            _literal,
            pairs=True,
        ),
        *(PEERS.values() if peers else ()),
    ]
    return {contestant.name: contestant for contestant in listed}


def own_backends() -> tuple[str, ...]:
    """Backends by name, the fast ones first; "auto" is one of the others."""
    return tuple(name for name in reversed(BACKENDS) if name != "auto")


def refusal(contestant: Contestant, case: Case, which: str) -> str | None:
    """Why a contestant cannot run a pass of a case, tried on a few poses; None if it can."""
    return _tried(contestant, replace(case, n=CHECKED), which)


@cache
def _tried(contestant: Contestant, small: Case, which: str) -> str | None:
    try:
        found = contestant.build(small).call(which)()
        if contestant.exact:
            _require_equal(found, _lie_attention(REFERENCE, small).call(which)())
    except REFUSALS as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        # The advice for users of the operator is of no use here.
        return line.split(" cannot do this: ")[-1].split(" Use backend=")[0].rstrip(".")
    return None


def _require_equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    error = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    size = max(1.0, *(float(b.abs().max()) for b in expected))
    if not error <= TOLERANCE * size:
        raise RuntimeError(f"its results are {error / size:.0e} away from those of the reference")


def _backend(name: str) -> Contestant:
    what = f'lie_attention(..., backend="{name}"), gradients of values and weights'
    build = partial(_lie_attention, name)
    return Contestant(name, f"lieattn {name}", what, build, pairs=name == REFERENCE, exact=True)


def _lie_attention(backend: str, case: Case) -> Problem:
    group = get_group(case.group)
    shape = (case.batch, case.heads, case.n)

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor, Tensor]:
        values, weights = inputs
        return lie_attention(group, poses[0], poses[0], values, weights, backend=backend)

    inputs = [case.random(*shape, case.width), torch.ones(case.heads, len(group.blocks))]
    shapes = [(*shape, case.width), (*shape, group.dim)]
    return Problem(function, inputs, [case.poses()], shapes)


def _sdpa(case: Case) -> Problem:
    shape = (case.batch, case.heads, case.n, case.width)
    inputs = [case.random(*shape, seed=seed) for seed in range(3)]

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor]:
        q, k, v = inputs
        return (scaled_dot_product_attention(q, k, v),)

    return Problem(function, inputs, [], [shape])


def _literal(case: Case) -> Problem:
    group, d = get_group(case.group), case.heads * case.width

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor]:
        return (literal_attention(group, *poses, *inputs),)

    inputs = [
        case.random(case.batch, case.n, d),
        torch.ones(case.heads, len(group.blocks)),
        case.random(d, d + group.dim) * d**-0.5,
    ]
    shape = (case.batch, case.heads, case.n, case.width)
    return Problem(function, inputs, [case.poses()], [shape])
