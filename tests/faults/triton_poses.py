"""What `test_poses.py` runs in a process of its own, with `TRITON_INTERPRET=1`."""

import os
from collections.abc import Callable
from typing import Any

import extreme_poses
import pytest
import torch
from extreme_poses import OPTIONS, Option, extreme_sets
from fault_counts import INTERPRETED
from test_poses import ACCURATE, RANGE, answers, compare

import lieattn as la
from lieattn.ops.triton.features import FAMILIES

extreme_poses.HEADS = 1  # the interpreter's time goes by heads

pytestmark = [
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="run by test_poses.py"),
    # numpy warns of overflow in branches that are not taken
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
@pytest.mark.parametrize("name", FAMILIES)
def test_extreme_poses_in_triton(name: str, option: Option, tally: Callable[..., Any]) -> None:
    group = la.get_group(name)
    if option.chart not in group.charts or not answers("triton", group, option, torch.float32):
        pytest.skip("Triton refuses it")
    with tally(ACCURATE, f"Triton in its interpreter: {RANGE}") as t:
        compare(t, group, torch.float32, option, ["triton"], extreme_sets, INTERPRETED)
