"""Errors of poses, block by block, in units of typical ones: what losses and tables are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from ..groups import Group

SOFT = 0.1  # errors over typical ones below which a loss is quadratic
TINY = 1e-12  # under roots, for their slope at zero
MIRROR = 1.0  # added to the error of a mirror image


def relative_errors(group: Group, unit: Tensor, answers: Tensor, truth: Tensor) -> Tensor:
    """Errors of blocks over `unit [K]`, `[..., K]`; mirror images count as worse."""
    w, valid = group.relation(answers, truth.expand_as(answers), group.charts[-1])
    norms = (group.block_sq_norms(group.to_physical(w[..., : group.dim])) + TINY).sqrt()
    errors = torch.where(valid[..., None], norms / unit, 1)
    if w.shape[-1] > group.dim:
        errors = errors + MIRROR * (w[..., group.dim :] > 0.5)
    return errors


def softened(errors: Tensor) -> Tensor:
    """Errors, of which those below `SOFT` are made quadratic."""
    return (errors.square() + SOFT**2).sqrt() - SOFT
