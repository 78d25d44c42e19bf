"""Copies of the nearest visible pose."""

from __future__ import annotations

import torch
from torch import Tensor

from ...groups import Group
from ..interpolation import neighbours_in_order, take
from .base import Predictor


def nearest(group: Group, poses: Tensor, visible: Tensor, features: Tensor | None = None) -> Tensor:
    """Every hidden pose as a copy of the visible pose nearest in the order.

    >>> from lieattn import SO2
    >>> poses = SO2.from_angle(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    >>> visible = torch.tensor([True, False, False, True])
    >>> torch.equal(nearest(SO2, poses, visible), poses[[0, 0, 3, 3]])
    True
    """
    near = neighbours_in_order(visible)
    index = torch.where(near.share <= 0.5, near.before, near.after)
    return take(torch.where(visible[..., None, None], poses, group.identity().to(poses)), index)


PREDICTOR = Predictor("nearest", "copy of the nearest visible pose", nearest)
