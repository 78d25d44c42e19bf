"""Exponential of any small square matrix, with the translation it carries."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import eye_like, mul, mul_vec

# Doublings and Taylor degree: full precision for |X| up to 2000.
_DOUBLINGS = {torch.float32: 12, torch.float64: 16}
_DEGREE = {torch.float32: 5, torch.float64: 8}


def exp(X: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """`e^X` and `V(X) v` for any square X, by scaling and squaring of `e^X - I`.

    Squaring the excess `E <- E (E + 2 I)` keeps small entries exact; the translation follows by
    V(X) = V(X/2)(e^(X/2) + I)/2 and so never inflates the scaling.
    """
    J, E = _small(X)
    v = mul_vec(J, v)
    for _ in range(_DOUBLINGS[X.dtype]):
        v = v + mul_vec(E, v) / 2
        E = mul(E, E) + 2 * E
    return eye_like(X) + E, v


def left_jacobian(X: Tensor) -> Tensor:
    """`V(X) = sum_k X^k / (k+1)!` for any square X, `[..., n, n]`: see `exp`."""
    V, E = _small(X)
    for _ in range(_DOUBLINGS[X.dtype]):
        V = V + mul(E, V) / 2
        E = mul(E, E) + 2 * E
    return V


def expm(X: Tensor) -> Tensor:
    """`e^X` for any square X, `[..., n, n]`."""
    return exp(X, X[..., 0])[0]


def _small(X: Tensor) -> tuple[Tensor, Tensor]:
    """J = sum_k Y^k / (k+1)! and `e^Y - I = Y J` of `Y = X / 2^doublings`."""
    eye, degree = eye_like(X), _DEGREE[X.dtype]
    Y = X * 0.5 ** _DOUBLINGS[X.dtype]
    J = eye + Y / (degree + 1)
    for k in range(degree, 1, -1):
        J = eye + mul(Y, J) / k
    return J, mul(Y, J)
