"""Logarithms against 50-digit references, in float64 and, for the rounded inputs, in float32."""

import json
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
import torch

import lieattn

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "golden.json").read_text())["cases"]
CASES = [
    pytest.param(name, case, dtype, id=f"{name}-{case['name']}-{str(dtype)[6:]}")
    for name, cases in GOLDEN.items()
    for case in cases
    for dtype in (torch.float64, torch.float32)
]
FACTOR = 16  # times eps (cond |g| + |w|): what the input's own rounding moves, and a few operations


def entry(case: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """The case itself, or its twin whose matrix is rounded to float32 and whose truth is anew."""
    return case if dtype == torch.float64 else case["float32"]


def test_every_group_of_the_paper_has_cases() -> None:
    counts = {name: len(cases) for name, cases in GOLDEN.items()}
    assert counts == {"SO2": 61, "SE2": 63, "SO3": 64, "SE3": 73, "Aff2": 66, "Aff3": 67}


@pytest.mark.parametrize(("name", "case", "dtype"), CASES)
def test_logarithm_is_as_exact_as_its_condition_allows(
    name: str, case: dict[str, Any], dtype: torch.dtype
) -> None:
    group, truth = lieattn.get_group(name), entry(case, dtype)
    g = torch.tensor(truth["g"], dtype=dtype, requires_grad=True)
    w = group.log(g)
    if truth["chart"] == "off":
        assert w.isnan().all()
        assert not group.in_chart(g)
        return
    assert group.in_chart(g) or truth["chart"] == "boundary"
    (gradient,) = torch.autograd.grad(w.sum(), g)
    assert gradient.isfinite().all()
    values = [truth[key] for key in ("w", "w_alt") if key in truth]
    candidates = [torch.tensor(value, dtype=torch.float64) for value in values]
    error = min((w.detach().double() - v).norm().item() for v in candidates)
    eps = torch.finfo(dtype).eps
    # On the boundary the derivative does not exist; the two values themselves are exact.
    condition = truth["cond_abs"] if truth["chart"] == "in" else 1.0
    size = candidates[0].norm().item()
    assert error <= FACTOR * eps * (condition * g.detach().norm().item() + size)


@pytest.mark.parametrize(("name", "case", "dtype"), CASES)
def test_relations_flag_what_the_chart_leaves_out(
    name: str, case: dict[str, Any], dtype: torch.dtype
) -> None:
    group, truth = lieattn.get_group(name), entry(case, dtype)
    g = torch.tensor(truth["g"], dtype=dtype)
    poses = torch.stack((group.identity(dtype=dtype), g)).requires_grad_()
    rel = lieattn.relations(group, poses, poses)
    (gradient,) = torch.autograd.grad(rel.coords.sum(), poses)
    assert rel.coords.isfinite().all()
    assert gradient.isfinite().all()
    assert bool(rel.valid[0, 1]) == (truth["chart"] != "off")
    if truth["chart"] == "off":
        assert (rel.coords[0, 1] == 0).all()


PERMUTED = [
    pytest.param(name, case, id=f"{name}-{case['name']}")
    for name in ("Aff2", "Aff3")
    for case in GOLDEN[name]
]


@pytest.mark.parametrize(("name", "case"), PERMUTED)
def test_logarithm_commutes_with_a_change_of_axes(name: str, case: dict[str, Any]) -> None:
    """log(Q g Q^-1) = Q log(g) Q^-1 for every signed permutation Q: no axis is special."""
    group = lieattn.get_group(name)
    n = group.n
    g = torch.tensor(case["g"], dtype=torch.float64)
    frames = []
    for order in permutations(range(n)):
        for signs in product((1.0, -1.0), repeat=n):
            Q = torch.eye(n + 1, dtype=torch.float64)
            Q[:n, :n] = torch.eye(n, dtype=torch.float64)[list(order)] * torch.tensor(signs)
            frames.append(Q)
    Q = torch.stack(frames)
    w = group.log(Q @ g @ Q.mT)
    if case["chart"] == "off":
        assert w.isnan().all()
        return
    truth = group.vee(Q @ group.hat(torch.tensor(case["w"], dtype=torch.float64)) @ Q.mT)
    size = case["cond_abs"] * g.norm() + truth.norm(dim=-1)
    assert ((w - truth).norm(dim=-1) <= FACTOR * torch.finfo(torch.float64).eps * size).all()
