"""The layer at the size of the paper's experiments: of sets so small, Python's share is large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ...groups import get_group
from ...nn.attention import LieAttention
from ...ops import Request as Operands
from ...ops.dispatch import choose
from .cases import SHORT, Case, Problem
from .timing import Runner, summary, take_turns

DIM = 32
CASE = {"width": 8, "n": 7, "heads": 4, "batch": 64}
BASE = "reference"


@dataclass
class LayerTimes:
    """Of one group, by backend and pass."""

    group: str
    chosen: str  # the backend that "auto" takes
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def measure(self, passes: tuple[str, ...], repeat: int, budget: float) -> Iterator[str]:
        """Time the layer in turns with itself on the reference; tells what comes next."""
        own, base = problem(self.group, "auto"), problem(self.group, BASE)
        for each in (own, base):
            yield "layer"
            each.call("forward")()  # imports what it needs, for seconds
        for which in passes:
            yield f"layer, {SHORT[which]}"
            rival = Runner(base.call(which), self.times.setdefault((BASE, which), []))
            runner = Runner(own.call(which), self.times.setdefault(("auto", which), []))
            for _ in chain(
                take_turns(rival, None, 1, budget), take_turns(runner, rival, repeat, budget)
            ):
                yield f"layer, {SHORT[which]}"

    def records(self) -> list[dict[str, Any]]:
        return [
            {"group": self.group, "backend": name, "pass": which} | summary(times)
            for (name, which), times in self.times.items()
            if times
        ]


def start(group: str) -> LayerTimes:
    """With nothing measured yet."""
    poses, values = Case(group, **CASE).poses(), torch.zeros(CASE["batch"], 4, CASE["n"], 8)
    weights = torch.ones(4, len(get_group(group).blocks))
    chosen = choose(Operands(get_group(group), poses, poses, values, weights))
    return LayerTimes(group, str(getattr(chosen, "__name__", "")).rsplit(".", 1)[-1])


def problem(group: str, backend: str) -> Problem:
    """The paper's layer, d = 32 and H = 4, on 64 sets of 7; gradients of h and of parameters."""
    case = Case(group, **CASE)
    torch.manual_seed(0)
    layer = LieAttention(group, DIM, case.heads, backend=backend)

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor]:
        return (layer(*inputs, *poses),)

    h = case.random(case.batch, case.n, DIM)
    return Problem(function, [h], [case.poses()], [tuple(h.shape)], list(layer.parameters()))
