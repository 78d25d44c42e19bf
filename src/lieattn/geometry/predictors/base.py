"""What a classical predictor is: an answer for hidden poses that needs no training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ...groups import Group

Predict = Callable[[Group, Tensor, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Predictor:
    """A prediction of hidden poses from the visible ones.

    Attributes:
        name: in tables and pictures.
        title: what it predicts, in a phrase.
        predict: from group, poses `[..., N, m, m]` in their order, visible `[..., N]` and features
            `[..., N, F]` or None to poses `[..., N, m, m]`. Visible poses stay as they are. Hidden
            ones may hold anything and must not be read.
        by_kind: whether it needs features, which say of what kind each token is.
    """

    name: str
    title: str
    predict: Predict
    by_kind: bool = False
