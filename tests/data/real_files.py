"""Real files of every format, and poses made of them by other means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

FILES = sorted(path for path in (Path(__file__).parent / "files").iterdir())
BY_NAME = {path.name: path for path in FILES}


def rigid(rotation: Rotation, t: np.ndarray) -> Tensor:
    g = np.tile(np.eye(4), (len(t), 1, 1))
    g[:, :3, :3], g[:, :3, 3] = rotation.as_matrix(), t
    return torch.from_numpy(g)


def close(a: Tensor, b: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=1e-12)
