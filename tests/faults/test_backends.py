"""Random requests: every backend answers as the reference in float64 does, or refuses them."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from fault_counts import LEVEL, SEED, tries
from torch import Tensor

import lieattn as la
from interpreted import run_in_interpreter
from lieattn import Group, scores
from lieattn.ops import Request, dispatch, tiled
from lieattn.ops._derivatives import tensors_of, with_tensors

GROUPS = list(la.available_groups().values())


def any_shape(draw: random.Random, *sizes: int) -> tuple[int, ...]:
    """Sizes of which some are 1, and broadcast."""
    return tuple(1 if draw.random() < 0.3 else size for size in sizes)


def any_pairs(draw: random.Random, batch: tuple[int, ...], *pairs: int) -> tuple[int, ...]:
    """The shape of a mask or bias: of pairs alone, or of all dimensions."""
    *heads, queries, keys = pairs
    whole = () if draw.random() < 0.3 else any_shape(draw, *batch, *heads)
    return *whole, *any_shape(draw, queries, keys)


def a_request(seed: int, group: Group) -> Request:
    """A random request of the group, in float32."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=generator)
    batch = tuple(draw.choice([1, 2, 3]) for _ in range(draw.choice([0, 1, 1, 2])))
    heads, queries, keys = draw.choice([1, 2, 3]), draw.randint(1, 9), draw.randint(1, 9)
    chart = draw.choice(group.charts)
    square = draw.random() < 0.5
    queries = keys if square else queries
    q = group.exp(0.5 * normal(*any_shape(draw, *batch), queries, group.dim))
    k = group.exp(0.5 * normal(*any_shape(draw, *batch), keys, group.dim))
    return Request(
        group,
        q,
        q if square and draw.random() < 0.3 else k,
        normal(*batch, heads, keys, draw.choice([1, 4, 7])),
        0.2 + normal(heads, len(group.chart_blocks(chart))).abs(),
        exclude_self=square and draw.random() < 0.5,
        margin=draw.choice([0.0, 0.0, 0.01, 0.3]),
        chart=chart,
    )


def with_options(asked: Request, seed: int) -> Request:
    """The request with other options, each now and then."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=generator)
    batch, (heads, keys) = asked.values.shape[:-3], asked.values.shape[-3:-1]
    places, options = keys, {}
    if draw.random() < 0.1:
        torch.manual_seed(seed)
        name = draw.choice(list(scores.SCORES))
        options["weights"] = scores.make(name, asked.group, heads, chart=asked.chart)
    if draw.random() < 0.1:
        places = draw.randint(1, 5)
        shape = *any_shape(draw, *batch), asked.queries, places
        options["neighbours"] = torch.randint(-1, keys, shape, generator=generator)
    pairs = heads, asked.queries, places
    if draw.random() < 0.5:
        options["mask"] = normal(any_pairs(draw, batch, *pairs)) < 0.8
    if draw.random() < 0.5:
        bias = normal(any_pairs(draw, batch, *pairs))
        limit = draw.choice([1.0, torch.inf])
        options["bias"] = bias.masked_fill(bias > limit, -torch.inf)
    if draw.random() < 0.1:
        options["q_content"] = normal(*batch, heads, asked.queries, 3)
        options["k_content"] = normal(*batch, heads, keys, 3)
    if draw.random() < 0.1:
        options["scale"] = 0.5 + normal(*any_shape(draw, *batch), 1, asked.group.dim).abs()
    if draw.random() < 0.05:
        options["dtype"] = torch.float64
    return replace(asked, **options)


def results(request: Request, backend: str) -> dict[str, Tensor]:
    """Both sums and the gradients of all tensors."""
    given = {name: x for name, x in tensors_of(request).items() if x.is_floating_point()}
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    sums = dispatch.run(with_tensors(request, leaves), backend)
    generator = torch.Generator().manual_seed(0)
    loss = sum((x * torch.randn(x.shape, generator=generator).to(x.dtype)).sum() for x in sums)
    how = {"allow_unused": True, "materialize_grads": True}
    found = torch.autograd.grad(loss, list(leaves.values()), **how)
    gradients = {f"d {name}": x for name, x in zip(leaves, found, strict=True)}
    return {"out": sums[0].detach(), "coords": sums[1].detach(), **gradients}


def furthest(found: dict[str, Tensor], exact: dict[str, Tensor]) -> float:
    """The largest error in parts of the size of a result, at least 1."""
    worst = 0.0
    for name, x in exact.items():
        if found[name].shape != x.shape:
            return float("inf")
        error = (found[name].double() - x).norm() / x.norm().clamp(min=1)
        worst = max(worst, float(error.nan_to_num(torch.inf)))
    return worst


def doubled(request: Request) -> Request:
    if isinstance(request.weights, torch.nn.Module):
        request = replace(request, weights=request.weights.double())
    tensors = {n: x.double() for n, x in tensors_of(request).items() if x.is_floating_point()}
    return with_tensors(request, tensors)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_random_requests_are_answered_as_by_the_reference_or_refused(
    group: Group, tally: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 12)
    how = "random sizes, masks and biases of every shape that broadcasts, all options together"
    with tally(f"Backends agree or refuse, {group}", how) as t:
        for seed in range(SEED, SEED + tries("requests")):
            request = with_options(a_request(seed, group), seed)
            found = {}
            for backend in ("reference", "tiled", "native", "auto"):
                reason = None if backend == "auto" else dispatch.refusal(request, backend)
                t.count(f"{backend} {'refused' if reason else 'answered'}")
                if reason is None:
                    found[backend] = results(request, backend)
            exact = results(doubled(request), "reference")
            own = furthest(found["reference"], exact)
            for backend, answer in found.items():
                error = furthest(answer, exact)
                t.check(error <= 1e-4 + 4 * own, f"seed {seed}, {backend}: {error:.1e} ({own:.1e})")


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.skipif(LEVEL in ("smoke", "quick"), reason="a case a field is part of tests/ops")
def test_every_field_and_option_in_the_triton_interpreter(tally: Callable[..., Any]) -> None:
    how = "every field of a request and every option of a model, in Triton's interpreter"
    with tally("Triton agrees or refuses", how) as t:
        done = run_in_interpreter("tests/ops/triton_cases.py", "-k", "as_the_reference_or")
        passed = re.search(r"(\d+) passed", done.stdout)
        t.check(passed, done.stdout[-2000:] + done.stderr[-2000:], int(passed[1]) if passed else 1)
        for failed in re.findall(r"^FAILED (.*)", done.stdout, re.MULTILINE):
            t.check(False, failed)
