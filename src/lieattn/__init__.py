"""Lie-Algebra Attention: an attention token is an element of a matrix Lie group.

Names are loaded when they are first used, so `import lieattn` does not import torch.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import data, distributed, groups, losses, scores, testing
    from .geometry import Relations, interpolate, neighbour_relations, relations
    from .groups import (
        SE2,
        SE3,
        SO2,
        SO3,
        T2,
        T3,
        Aff2,
        Aff3,
        Block,
        Group,
        Sim2,
        Sim3,
        available_groups,
        get_group,
        logm,
        matrix_group,
        product,
    )
    from .models import baselines
    from .models.baselines import PairCompletionModel, VectorCompletionModel, VectorInfillModel
    from .models.completion import Completion, CompletionModel, CompletionOutput
    from .models.infill import Infill, InfillModel, InfillOutput, infill_loss
    from .monitor import ChartMonitor, ChartReport
    from .nn import (
        CheckpointError,
        CorrectionHead,
        GapHead,
        InvariantReadout,
        LieAttention,
        LieTransformer,
        LieTransformerConfig,
        LieTransformerOutput,
    )
    from .ops import lie_attention

_PACKAGES = {
    "baselines": "models.baselines",
    **{name: name for name in ("data", "distributed", "groups", "losses", "scores", "testing")},
}
_NAMES = {
    "geometry": ("Relations", "interpolate", "neighbour_relations", "relations"),
    "groups": (
        *("SE2", "SE3", "SO2", "SO3", "Aff2", "Aff3", "Sim2", "Sim3", "T2", "T3"),
        *("Block", "Group", "available_groups", "get_group", "logm", "matrix_group", "product"),
    ),
    "models.baselines": ("PairCompletionModel", "VectorCompletionModel", "VectorInfillModel"),
    "models.completion": ("Completion", "CompletionModel", "CompletionOutput"),
    "models.infill": ("Infill", "InfillModel", "InfillOutput", "infill_loss"),
    "monitor": ("ChartMonitor", "ChartReport"),
    "nn": (
        *("LieAttention", "LieTransformer", "LieTransformerConfig", "LieTransformerOutput"),
        *("CheckpointError", "CorrectionHead", "GapHead", "InvariantReadout"),
    ),
    "ops": ("lie_attention",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "T2",
    "T3",
    "Aff2",
    "Aff3",
    "Block",
    "ChartMonitor",
    "ChartReport",
    "CheckpointError",
    "Completion",
    "CompletionModel",
    "CompletionOutput",
    "CorrectionHead",
    "GapHead",
    "Group",
    "Infill",
    "InfillModel",
    "InfillOutput",
    "InvariantReadout",
    "LieAttention",
    "LieTransformer",
    "LieTransformerConfig",
    "LieTransformerOutput",
    "PairCompletionModel",
    "Relations",
    "Sim2",
    "Sim3",
    "VectorCompletionModel",
    "VectorInfillModel",
    "__version__",
    "available_groups",
    "baselines",
    "data",
    "distributed",
    "get_group",
    "groups",
    "infill_loss",
    "interpolate",
    "lie_attention",
    "logm",
    "losses",
    "matrix_group",
    "neighbour_relations",
    "product",
    "relations",
    "scores",
    "testing",
]


class _Package(ModuleType):
    """Loads names when they are asked for. Methods, so that type checkers know of no others."""

    def __getattr__(self, name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f".{_PACKAGES[name]}", __name__)
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
