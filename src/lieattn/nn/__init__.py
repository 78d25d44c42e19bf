"""Layers: attention, the transformer, heads, configs, checkpoints."""

from .attention import LieAttention as LieAttention
from .config import LieTransformerConfig as LieTransformerConfig
from .heads import CorrectionHead as CorrectionHead
from .heads import GapHead as GapHead
from .heads import InvariantReadout as InvariantReadout
from .pretrained import CheckpointError as CheckpointError
from .transformer import LieTransformer as LieTransformer
from .transformer import LieTransformerOutput as LieTransformerOutput
