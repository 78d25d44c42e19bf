"""How far poses are from the truth, block by block, in units that people use."""

from __future__ import annotations

import torch
from torch import Tensor

from ..groups import Block, Group

UNITS = {"translation": "file", "rotation": "deg", "scale": "log", "shear": "log"}  # by kind


def block_errors(group: Group, predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Norms of the blocks of `log(predicted^-1 truth)`, physical, `[n, K]`; and which are mirrored.

    In float64 and the group's widest chart. A mirror image, for which no step leads to the truth,
    is compared up to the mirror.
    """
    w, _ = group.relation(predicted.double(), truth.double(), group.charts[-1])
    mirrored = torch.zeros(w.shape[:-1], dtype=torch.bool)
    if w.shape[-1] > group.dim:
        mirrored = w[..., group.dim] > 0.5
    physical = group.to_physical(w[..., : group.dim])
    return group.block_sq_norms(physical).sqrt(), mirrored


def in_units(group: Group, errors: Tensor, scale: float) -> Tensor:
    """Errors `[..., K]` of a model's poses in the unit of the file, rotations in degrees.

    Every translation block is in units of `scale`.
    """
    factors = {"translation": scale, "rotation": 180 / torch.pi}
    return errors * torch.tensor([factors.get(block.kind, 1.0) for block in group.blocks])


def unit_of(block: Block) -> str:
    return UNITS.get(block.kind, "coordinate")


def heading(block: Block) -> str:
    """The name of a block over a column of its errors.

    >>> heading(Block("rotation2", 3)), heading(Block("scale", 1)), heading(Block("translation", 3))
    ('rotation2, deg', 'log scale', 'translation')
    """
    if block.kind == "rotation":
        return f"{block.name}, deg"
    return f"log {block.name}" if block.kind in ("scale", "shear") else block.name
