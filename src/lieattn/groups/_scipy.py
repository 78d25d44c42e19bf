"""Rotations to and from scipy, which is imported when it is asked for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .base import Device


def matrices(rotation: Any, dtype: torch.dtype | None, device: Device) -> Tensor:
    """Rotation matrices `[..., 3, 3]` of a scipy `Rotation`."""
    known = _transform().Rotation
    if not isinstance(rotation, known):
        raise TypeError(
            f"rotations must be a scipy.spatial.transform.Rotation, got {type(rotation).__name__}."
        )
    dtype = dtype or torch.get_default_dtype()
    return torch.tensor(rotation.as_matrix(), dtype=dtype, device=device)


def rotation(quaternions: Tensor) -> Any:
    """A scipy `Rotation` of quaternions (x, y, z, w) `[..., 4]`, batches as one dimension."""
    q = quaternions.detach().cpu().double()
    # Releases before 1.17 know one dimension only.
    return _transform().Rotation.from_quat(q.numpy() if q.dim() < 2 else q.flatten(0, -2).numpy())


def _transform() -> ModuleType:
    try:
        from scipy.spatial import transform
    except ImportError as error:
        raise ImportError("from_scipy and to_scipy need scipy: pip install scipy.") from error
    return transform
