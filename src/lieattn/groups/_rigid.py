"""The linear part SO(n), shared by SO(n) itself, SE(n) and, up to a factor, Sim(n)."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from .._core.small import eye_like, mul, mul_vec
from . import checks
from . import rotations as _rotations
from ._blocks import Block, rotation_clearance
from ._semidirect import Semidirect
from .base import Draw, Group


class Rotations(Group):
    """SO(n): what n = 2 and n = 3 share."""

    def __init__(self, name: str, n: int) -> None:
        self.name, self.n, self.matrix_size = name, n, n
        self.blocks = (Block("rotation", n * (n - 1) // 2),)

    def inverse(self, g: Tensor) -> Tensor:
        return checks.poses(self, g).mT

    def _to_local(self, g: Tensor, points: Tensor) -> Tensor:
        return mul_vec(g.mT, points)

    def _log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return self._log_excess(g, g - eye_like(g))

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self._log_excess(mul(a.mT, b), mul(a.mT, b - a))

    @abstractmethod
    def _log_excess(self, g: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of the logarithm of g = I + e, e exact."""

    def _clearance(self, g: Tensor) -> Tensor:
        return _rotations.margin(g)

    def _pair_clearance(self, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        return rotation_clearance(self.blocks, w)

    def _random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return _rotations.haar(self.n, batch, draw)

    def project(self, g: Tensor) -> Tensor:
        """Nearest rotation in the Frobenius norm, reflections included."""
        return _rotations.nearest_rotation(checks.poses(self, g))

    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        return _rotations.defects(g)


class RigidMotions(Semidirect):
    """SE(n): what n = 2 and n = 3 share."""

    def __init__(self, name: str, n: int) -> None:
        super().__init__(name, n, Block("rotation", n * (n - 1) // 2))

    def _linear_inverse(self, a: Tensor) -> Tensor:
        return a.mT

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return _rotations.margin(a)

    def _linear_project(self, a: Tensor) -> Tensor:
        return _rotations.nearest_rotation(a)

    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return _rotations.haar(self.n, batch, draw)

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        return _rotations.defects(a)
