"""L x R^n, a linear group acting on space, written once for SE(n), Sim(n) and Aff(n)."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from .._core.small import eye_like, homogeneous, mul, mul_vec, same_dtype
from .._core.tensors import tensor, vectors
from . import checks
from ._bases import affine_generators
from ._blocks import Block, rotation_clearance
from .base import Draw, Group

SMALLEST = 1e-36  # of the squared norm of a linear part


class Semidirect(Group):
    """Poses `[[A, t], [0, 1]]` with A in a group L of n x n matrices.

    A subclass gives L: its exponential, logarithm, inverse, projection and random elements. The
    translations are one block unless `blocks` has others, which come in the order of the axes.
    """

    def __init__(self, name: str, n: int, *blocks: Block) -> None:
        self.name, self.n, self.matrix_size = name, n, n + 1
        moved = any(block.kind == "translation" for block in blocks)
        self.blocks = blocks if moved else (Block("translation", n), *blocks)

    def _generators(self) -> Tensor:
        return affine_generators(self.n, self.blocks)

    # ---- what a subclass implements ---------------------------------------------------------

    @abstractmethod
    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A `[..., n, n]` and t `[..., n]` of the exponential of coordinates `[..., dim]`."""

    @abstractmethod
    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of the logarithm of (a, t), a = I + e."""

    @abstractmethod
    def _linear_inverse(self, a: Tensor) -> Tensor: ...

    @abstractmethod
    def _linear_clearance(self, a: Tensor) -> Tensor:
        """Angle in radians between the eigenvalues of A and the negative real axis, `[...]`."""

    @abstractmethod
    def _linear_project(self, a: Tensor) -> Tensor: ...

    @abstractmethod
    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor: ...

    @abstractmethod
    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]: ...

    # ---- what follows ------------------------------------------------------------------------

    def linear(self, g: Tensor) -> Tensor:
        """Linear part A, `[..., n, n]`."""
        return g[..., : self.n, : self.n]

    def translation(self, g: Tensor) -> Tensor:
        """Translation t, `[..., n]`."""
        return g[..., : self.n, self.n]

    def from_parts(self, linear: Tensor, translation: Tensor) -> Tensor:
        """Poses from a linear part `[..., n, n]` and a translation `[..., n]`."""
        what = f"{self} linear part"
        if isinstance(linear, Tensor) and linear.shape[-2:] != (self.n, self.n):
            raise ValueError(
                f"{what} must have shape [..., {self.n}, {self.n}], got {list(linear.shape)}."
            )
        vectors(translation, self.n, f"{self} translation")
        return homogeneous(tensor(linear, what), translation.to(linear.dtype))

    def from_matrix(self, matrix: Tensor) -> Tensor:
        """Poses from `[..., n, n+1]` matrices (the last row added) or from full ones."""
        if isinstance(matrix, Tensor) and matrix.shape[-2:] == (self.n, self.n + 1):
            return self.from_parts(matrix[..., : self.n], matrix[..., self.n])
        return checks.poses(self, matrix)

    def inverse(self, g: Tensor) -> Tensor:
        checks.poses(self, g)
        a = self._linear_inverse(self.linear(g))
        return homogeneous(a, -mul_vec(a, self.translation(g)))

    def _to_local(self, g: Tensor, points: Tensor) -> Tensor:
        return mul_vec(self._linear_inverse(self.linear(g)), points - self.translation(g))

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        a, b = same_dtype(a, b)
        linear = mul(self.linear(a), self.linear(b))
        t = mul_vec(self.linear(a), self.translation(b)) + self.translation(a)
        return homogeneous(linear, t)

    def relative(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a)
        checks.poses(self, b)
        linear, _, t = self._relative_parts(a, b)
        return homogeneous(linear, t)

    def _relative_parts(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A_a^-1 A_b, A_a^-1 (A_b - A_a) and A_a^-1 (t_b - t_a): differences first."""
        inverse = self._linear_inverse(self.linear(a))
        A, B = self.linear(a), self.linear(b)
        t = mul_vec(inverse, self.translation(b) - self.translation(a))
        return mul(inverse, B), mul(inverse, B - A), t

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self._log_parts(*self._relative_parts(a, b))

    def _exp(self, x: Tensor) -> Tensor:
        return homogeneous(*self._exp_parts(x))

    def _log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return self._log_parts(*self._parts(g))

    def _parts(self, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A, A - I and t."""
        a = self.linear(g)
        return a, a - eye_like(a), self.translation(g)

    def _clearance(self, g: Tensor) -> Tensor:
        return self._linear_clearance(self.linear(g))

    def _pair_clearance(self, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        return rotation_clearance(self.blocks, w)

    def admits(self, g: Tensor) -> Tensor:
        return super().admits(g) & self._linear_admits(self.linear(g.detach()))

    def _linear_admits(self, a: Tensor) -> Tensor:
        """Where the inverse of a linear part is finite."""
        size = a.square().sum((-2, -1))
        return (size > SMALLEST) & (size < 1 / SMALLEST)

    def project(self, g: Tensor) -> Tensor:
        """Nearest element: the linear part is projected, the translation kept."""
        checks.poses(self, g)
        return homogeneous(self._linear_project(self.linear(g)), self.translation(g))

    def _random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return homogeneous(self._linear_random(batch, draw), draw.normal(*batch, self.n))

    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        last = torch.zeros(self.n + 1, dtype=g.dtype, device=g.device)
        last[-1] = 1
        off = (g[..., self.n, :] - last).abs().amax(-1)
        text = (
            "its last row misses (0, ..., 0, 1) by {by}. {group}.project(g) resets it; poses that "
            "act on row vectors need .mT first."
        )
        return [(off, 0.0, text), *self._linear_defect(self.linear(g))]

    def _shape_hint(self, g: Tensor) -> str:
        if g.shape[-2:] == (self.n, self.n + 1):
            return f"For [..., {self.n}, {self.n + 1}] matrices use {self.name}.from_matrix(poses)."
        if g.shape[-2:] == (self.n, self.n):
            return f"For a linear part and a translation use {self.name}.from_parts(A, t)."
        return ""
