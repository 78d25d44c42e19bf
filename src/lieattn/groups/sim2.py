"""Sim(2), rotation, uniform scale and translation of the plane."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from . import rotations as _rotations
from ._similarity import Similarities, generator_matrix, inverse_left_jacobian, left_jacobian


class _Sim2(Similarities):
    r"""Similarities `[..., 3, 3]`; coordinates translation (2), rotation (1), scale (1).

    >>> from lieattn import Sim2
    >>> g = Sim2.from_parts(2.0 * torch.eye(2), torch.tensor([1.0, 0.0]))
    >>> Sim2.to_physical(Sim2.log(g))  # V^-1 t = t log 2, no turn, log 2
    tensor([0.6931, 0.0000, 0.0000, 0.6931])
    """

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        theta, sigma = x[..., 2:3] / sqrt(2), x[..., 3] / sqrt(2)
        linear = sigma.exp()[..., None, None] * _rotations.planar(theta[..., 0])
        return linear, left_jacobian(generator_matrix(theta, sigma), x[..., :2])

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        theta, sigma = _rotations.angle(a, self._skew(a, e))[..., None], self._log_scale(a, e)
        u = inverse_left_jacobian(theta, sigma, t)
        w = torch.cat((u, sqrt(2) * theta, sqrt(2) * sigma[..., None]), dim=-1)
        return w, w.isfinite().all(-1)


Sim2 = _Sim2("Sim2", 2)
