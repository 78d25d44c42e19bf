"""Sim(n) = (R+ x SO(n)) x R^n, and V(X + s I), the translation map the polar chart shares."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import cross, eye_like, trace, widened
from . import _expm, _gl2
from . import rotations as _rotations
from ._blocks import Block
from ._semidirect import Semidirect
from .base import Draw
from .series import half_coth_coefficients, rotation_coefficients

_HALVINGS = 7  # |X + s I| <= 64 reaches the series below 1/2


class Similarities(Semidirect):
    """Sim(n): what n = 2 and n = 3 share."""

    def __init__(self, name: str, n: int) -> None:
        super().__init__(name, n, Block("rotation", n * (n - 1) // 2), Block("scale", 1))

    def scale(self, g: Tensor) -> Tensor:
        """Scale factor, `[...]`."""
        return self._scale_of(self.linear(g))

    def _scale_of(self, a: Tensor) -> Tensor:
        return (a.square().sum((-2, -1)) / self.n).sqrt()

    def _log_scale(self, a: Tensor, e: Tensor) -> Tensor:
        # |a|^2 = n s^2, and near the identity |a|^2 - n = 2 tr e + |e|^2 without cancellation.
        near = e.abs().amax((-2, -1)) < 0.25
        excess = (2 * trace(e) + e.square().sum((-2, -1))) / self.n
        far = torch.where(near[..., None, None], eye_like(a), a).square().sum((-2, -1)) / self.n
        return torch.where(near, torch.where(near, excess, 0).log1p(), far.log()) / 2

    def _skew(self, a: Tensor, e: Tensor) -> Tensor:
        """Whichever of a and e = a - I has a more accurate skew part: e rounds at 1, a at |a|."""
        near = e.abs().amax((-2, -1), keepdim=True) < 0.25
        return torch.where(near, e, a)

    def _linear_inverse(self, a: Tensor) -> Tensor:
        return self._unit(a).mT / self._scale_of(a)[..., None, None]

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        # In float64: derivatives hold powers of scales that overflow float32.
        w, valid = super()._log_relative(widened(a), widened(b))
        return w.to(torch.promote_types(a.dtype, b.dtype)), valid

    def _unit(self, a: Tensor) -> Tensor:
        return a / self._scale_of(a)[..., None, None]

    def _linear_clearance(self, a: Tensor) -> Tensor:
        return _rotations.margin(self._unit(a))

    def _linear_project(self, a: Tensor) -> Tensor:
        R = _rotations.nearest_rotation(a)
        return R * ((R * a).sum((-2, -1)) / self.n)[..., None, None]

    def _linear_random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        R = _rotations.haar(self.n, batch, draw)
        return R * (draw.normal(*batch) / 2).exp()[..., None, None]

    def _linear_defect(self, a: Tensor) -> list[tuple[Tensor, float, str]]:
        singular = torch.where(a.square().sum((-2, -1)) > 0, 0.0, 1.0)
        text = "its linear part is zero, hence singular. Drop it: no element is near."
        return [(singular, 0.5, text), *_rotations.defects(self._unit(a))]


def inverse_left_jacobian(omega: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
    """V(X + sigma I)^-1 v for a rotation generator X: an angle `[..., 1]` or a vector `[..., 3]`.

    V(X) = V(X/2)(e^(X/2) + I)/2, repeated until the Bernoulli series of x/(e^x - 1) applies.
    """
    if omega.shape[-1] == 1:
        return _gl2.inverse_left_jacobian(generator_matrix(omega, sigma), v)
    scale = 0.5**_HALVINGS
    omega, sigma = omega * scale, sigma * scale
    z = omega.square().sum(-1)
    a, b, _ = rotation_coefficients(z)
    w, step = v, omega
    for level in range(_HALVINGS):
        g = (sigma * 2.0**level).exp()
        cos = 1 - b * z
        det = 1 + 2 * g * cos + g * g
        once = cross(step, w)
        second = g * (g - 1) * b / ((g + 1) * det)
        w = 2 * (
            w / (g + 1)[..., None]
            - (g * a / det)[..., None] * once
            + second[..., None] * cross(step, once)
        )
        # Double the angle: sin(2x)/2x = a cos x, (1 - cos 2x)/(2x)^2 = a^2/2.
        a, b, z, step = a * cos, a * a / 2, 4 * z, 2 * step
    y = torch.zeros_like(w)
    for c in reversed(half_coth_coefficients()):
        y = c * w + _times(omega, sigma, _times(omega, sigma, y))
    return y - _times(omega, sigma, w) / 2


def left_jacobian(X: Tensor, v: Tensor) -> Tensor:
    """V(X) v for any 2x2 or 3x3 matrix X."""
    return _gl2.left_jacobian(X, v) if X.shape[-1] == 2 else _expm.exp(X, v)[1]


def generator_matrix(omega: Tensor, sigma: Tensor) -> Tensor:
    """[omega]_x + sigma I as a 2x2 or 3x3 matrix."""
    if omega.shape[-1] == 1:
        s, o = sigma, omega[..., 0]
        return torch.stack((torch.stack((s, -o), -1), torch.stack((o, s), -1)), dim=-2)
    X = _rotations.skew(omega)
    return X + sigma[..., None, None] * eye_like(X)


def _times(omega: Tensor, sigma: Tensor, v: Tensor) -> Tensor:
    return cross(omega, v) + sigma[..., None] * v
