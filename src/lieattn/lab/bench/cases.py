"""What is measured: sizes, passes, and a contestant's function with the tensors it runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...groups import get_group

# Backward passes include their forward pass. "backward" takes gradients of all inputs but poses.
PASSES = {
    "forward": "forward",
    "backward": "forward + backward",
    "poses": "forward + backward with pose gradients",
}
SHORT = {"forward": "forward", "backward": "backward", "poses": "+ poses"}  # in narrow tables
SPREAD = 0.4  # of the poses in the algebra: small enough for all pairs to be on the chart


@dataclass(frozen=True)
class Case:
    """One size of the problem."""

    group: str
    width: int  # of a head
    n: int
    heads: int = 4
    batch: int = 1

    def __str__(self) -> str:
        return f"{get_group(self.group)}, width {self.width}, N {self.n}"

    def poses(self) -> Tensor:
        """`[B, N, m, m]`, float32."""
        group = get_group(self.group)
        return group.exp(SPREAD * self.random(self.batch, self.n, group.dim, seed=1))

    def random(self, *shape: int, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator)


@dataclass(frozen=True)
class Problem:
    """A function and what it is called with."""

    function: Callable[[list[Tensor], list[Tensor]], Sequence[Tensor]]  # of inputs and poses
    inputs: list[Tensor]
    poses: list[Tensor]
    shapes: Sequence[tuple[int, ...]]  # of what the function returns
    parameters: list[Tensor] = field(default_factory=list)  # that the function holds itself

    def call(self, which: str) -> Callable[[], Any]:
        """A function without arguments that runs one of `PASSES`, on tensors made beforehand."""
        if which == "forward":
            return torch.no_grad()(lambda: self.function(self.inputs, self.poses))
        inputs = [x.detach().requires_grad_() for x in self.inputs]
        poses = [g.detach().requires_grad_(which == "poses") for g in self.poses]
        wanted = [*inputs, *self.parameters, *(g for g in poses if g.requires_grad)]
        cotangents = [torch.ones(shape) for shape in self.shapes]

        def run() -> Any:
            return torch.autograd.grad(self.function(inputs, poses), wanted, cotangents)

        return run


@dataclass(frozen=True)
class Contestant:
    """An implementation of attention."""

    name: str
    label: str  # in tables and figures
    what: str  # one line of explanation
    build: Callable[[Case], Problem]
    passes: tuple[str, ...] = tuple(PASSES)
    pairs: bool = False  # makes tensors of all pairs: its memory grows with the square of N
    groups: tuple[str, ...] | None = None  # None: all
    exact: bool = False  # its results are those of the reference backend

    @property
    def short(self) -> str:
        """Backends by their names alone: all of them are ours."""
        return self.label.removeprefix("lieattn ")
