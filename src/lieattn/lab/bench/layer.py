"""The layer at the size of the paper's experiments. Its sets are small: Python's share is large."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ...groups import get_group
from ...nn.attention import LieAttention
from ...ops import Request
from ...ops.dispatch import choose
from .cases import Case, Contestant, Problem

DIM = 32
CASE = {"width": 8, "n": 7, "heads": 4, "batch": 64}


def contestants(case: Case) -> list[Contestant]:
    """The layer on the reference, and with the backend that "auto" takes: its label."""
    values = case.random(case.batch, case.heads, case.n, case.width)
    group, poses = get_group(case.group), case.poses()
    weights = torch.ones(case.heads, len(group.blocks))
    chosen = choose(Request(group, poses, poses, values, weights))
    label = str(getattr(chosen, "__name__", "")).rsplit(".", 1)[-1]
    return [Contestant(name, label, "", partial(problem, name)) for name in ("reference", "auto")]


def problem(backend: str, case: Case) -> Problem:
    """The paper's layer, d = 32 and H = 4, on 64 sets of 7; gradients of h and of parameters."""
    torch.manual_seed(0)
    layer = LieAttention(case.group, DIM, case.heads, backend=backend)

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor]:
        return (layer(*inputs, *poses),)

    h = case.random(case.batch, case.n, DIM)
    return Problem(function, [h], [case.poses()], [tuple(h.shape)], list(layer.parameters()))
