"""Geodesic interpolation, which is also where trained models start."""

from __future__ import annotations

from torch import Tensor

from ...groups import Group
from ..interpolation import interpolate
from .base import Predictor


def geodesic(
    group: Group, poses: Tensor, visible: Tensor, features: Tensor | None = None
) -> Tensor:
    """`interpolate`."""
    return interpolate(group, poses, visible)


PREDICTOR = Predictor("geodesic", "between the visible poses on both sides", geodesic)
