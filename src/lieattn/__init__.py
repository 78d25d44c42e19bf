"""Lie-Algebra Attention: an attention token is an element of a matrix Lie group.

Names are loaded when they are first used, so `import lieattn` does not import torch. Type checkers
read the same names in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

from ._version import __version__ as __version__

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
    "models.infill": ("Infill", "InfillConfig", "InfillModel", "InfillOutput", "infill_loss"),
    "monitor": ("ChartMonitor", "ChartReport"),
    "nn": (
        *("LieAttention", "LieTransformer", "LieTransformerConfig", "LieTransformerOutput"),
        *("CheckpointError", "CorrectionHead", "GapHead", "InvariantReadout"),
    ),
    "ops": ("lie_attention",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_PACKAGES, *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{_PACKAGES[name]}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
