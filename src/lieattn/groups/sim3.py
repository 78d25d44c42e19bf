"""Sim(3), rotation, uniform scale and translation of space."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from . import rotations as _rotations
from ._similarity import Similarities, generator_matrix, inverse_left_jacobian, left_jacobian


class _Sim3(Similarities):
    r"""Similarities `[..., 4, 4]`; coordinates translation (3), rotation (3), scale (1).

    >>> from lieattn import Sim3
    >>> g = Sim3.from_parts(2.0 * torch.eye(3), torch.tensor([1.0, 0.0, 0.0]))
    >>> Sim3.to_physical(Sim3.log(g))
    tensor([0.6931, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.6931])
    """

    def _exp_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        omega, sigma = x[..., 3:6] / sqrt(2), x[..., 6] / sqrt(3)
        linear = sigma.exp()[..., None, None] * _rotations.rodrigues(omega)
        return linear, left_jacobian(generator_matrix(omega, sigma), x[..., :3])

    def _log_parts(self, a: Tensor, e: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        sigma = self._log_scale(a, e)
        axial = _rotations.axial(self._skew(a, e)) * (-sigma).exp()[..., None]
        q = _rotations.quaternion(self._unit(a), axial)
        omega = _rotations.rotation_vector(*q)
        u = inverse_left_jacobian(omega, sigma, t)
        w = torch.cat((u, sqrt(2) * omega, sqrt(3) * sigma[..., None]), dim=-1)
        return w, w.isfinite().all(-1)


Sim3 = _Sim3("Sim3", 3)
