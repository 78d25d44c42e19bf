"""Lie-Algebra Attention: an attention token is an element of a matrix Lie group."""

from typing import TYPE_CHECKING

from . import baselines, data, distributed, losses, scores, testing
from ._version import __version__
from .attention import LieAttention
from .baselines import PairCompletionModel, VectorCompletionModel, VectorInfillModel
from .checkpoint import CheckpointError
from .completion import Completion, CompletionModel, CompletionOutput
from .config import LieTransformerConfig
from .groups import (
    SE2,
    SE3,
    SO2,
    SO3,
    Aff2,
    Aff3,
    Block,
    Group,
    Sim2,
    Sim3,
    get_group,
    logm,
    matrix_group,
)
from .heads import CorrectionHead, GapHead, InvariantReadout
from .infill import Infill, InfillModel, InfillOutput
from .infill_losses import infill_loss
from .interpolation import interpolate
from .model import LieTransformer, LieTransformerOutput
from .monitor import ChartMonitor, ChartReport
from .ops import lie_attention
from .relations import Relations, neighbour_relations, relations

if TYPE_CHECKING:
    from .groups.base import groups
else:
    from . import groups  # the package itself, which answers a call with the registry

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
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
    "relations",
    "scores",
    "testing",
]
