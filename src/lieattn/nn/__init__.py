"""Layers: attention, the transformer, heads, configs, checkpoints."""

from .attention import LieAttention
from .config import LieTransformerConfig
from .heads import CorrectionHead, GapHead, InvariantReadout
from .pretrained import CheckpointError
from .transformer import LieTransformer, LieTransformerOutput

__all__ = [
    "CheckpointError",
    "CorrectionHead",
    "GapHead",
    "InvariantReadout",
    "LieAttention",
    "LieTransformer",
    "LieTransformerConfig",
    "LieTransformerOutput",
]
