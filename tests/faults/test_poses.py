"""Poses over the whole range that is promised: finite everywhere, right to 1% in float32."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from extreme_poses import OPTIONS, Asked, Option, extreme_sets, kernel_sets
from fault_counts import LEVEL, SEED, tries

import lieattn as la
from interpreted import run_in_interpreter
from lieattn import Group

SETS = 1_000  # at a time
SIZE = 4
BACKENDS = ("reference", "tiled", "native")
NAMES = list(la.available_groups())
RANGE = (
    "rotations Haar or equal in a set, conditions to 1e4 (float64 1e8), scales 1e-8 to 1e8, "
    "translations 1e-3 to 1e18"
)
PROMISE = "Outputs and gradients are finite for all poses that check admits in the stated range"
ACCURATE = "In float32, coordinates and sums are within 1% of float64 on the same numbers"


def chunks(what: str) -> list[tuple[int, int]]:
    """Seeds and numbers of sets that add up to the tries of a level."""
    number = tries(what, least=8 if what == "poses" else 1)
    sizes = [min(SETS, number - at) for at in range(0, number, SETS)]
    return [(1_000 * SEED + i, size) for i, size in enumerate(sizes)]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_extreme_poses(
    name: str, dtype: torch.dtype, option: Option, tally: Callable[..., Any]
) -> None:
    group = la.get_group(name)
    if option.chart != "principal" and not group.is_global(option.chart):
        pytest.skip("the charts of this group are one")
    backends = [b for b in BACKENDS if answers(b, group, option, dtype)]
    with tally(PROMISE, f"{RANGE}: every group, precision, chart, option and backend") as t:
        compare(t, group, dtype, option, backends, extreme_sets)


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.kernel], ids=lambda o: o.name)
@pytest.mark.parametrize("name", ["SE2", "SE3", "Aff2", "Aff3"])
def test_poses_that_the_kernel_answers_itself(
    name: str, option: Option, tally: Callable[..., Any]
) -> None:
    group = la.get_group(name)
    with tally(ACCURATE, "sets up to the limits of the CPU kernel") as t:
        compare(t, group, torch.float32, option, ["native"], kernel_sets)


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.skipif(LEVEL == "smoke", reason="the interpreter takes half a second a set")
def test_extreme_poses_in_the_triton_interpreter() -> None:
    done = run_in_interpreter("tests/faults/triton_poses.py")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def answers(backend: str, group: Group, option: Option, dtype: torch.dtype) -> bool:
    """Whether a backend takes the request at all: a refusal is no failure."""
    poses = group.random(1, SIZE, dtype=dtype)
    try:
        Asked(group, option, poses, 0).answer(backend, dtype)
    except ValueError as refused:
        if "cannot do this" not in str(refused):
            raise
        return False
    return True


def compare(
    t: Any,
    group: Group,
    dtype: torch.dtype,
    option: Option,
    backends: list[str],
    sample: Callable[..., torch.Tensor],
    counted: str = "poses",
) -> None:
    for seed, number in chunks(counted):
        generator = torch.Generator().manual_seed(seed)
        poses = sample(group, dtype, number, SIZE, generator)
        group.check(poses)
        asked = Asked(group, option, poses, seed)
        truth = asked.truth() if dtype == torch.float32 else None
        for backend in backends:
            what = f"{group} {str(dtype)[6:]} {option.name} {backend} seed {seed}"
            answer = asked.answer(backend, dtype)
            wrong = {n: int((~x.isfinite()).sum()) for n, x in answer.tensors()}
            wrong = {n: count for n, count in wrong.items() if count}
            t.check(not wrong, f"{what}: not finite in {wrong}", times=number)
            if truth is None:
                continue
            off = truth.disagree(answer)
            t.check(not off.any(), f"{what}: off in sets {off.nonzero().flatten().tolist()[:5]}", 0)
            t.count("rows that float32 cannot tell apart", int(truth.contested.sum()))
            t.count("rows compared with float64", truth.contested.numel())
