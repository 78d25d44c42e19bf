"""Neural rivals: models of vector tokens and of pose-feature pairs, for comparison."""

from .vector import (
    PairCompletionModel,
    PairTransformer,
    VectorCompletionModel,
    VectorInfillModel,
    VectorTransformer,
    absolute_features,
)

__all__ = [
    "PairCompletionModel",
    "PairTransformer",
    "VectorCompletionModel",
    "VectorInfillModel",
    "VectorTransformer",
    "absolute_features",
]
