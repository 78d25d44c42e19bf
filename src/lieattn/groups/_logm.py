"""Principal logarithm of any small real matrix: batched, differentiable, NaN off the chart."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.small import eye_like
from .._core.tensors import tensor
from . import _gl2, _gl3
from ._quadrature import ROOTS, RULE
from ._roots import half, sylvester

# Scaled Newton iterations for a root: enough from 1e-7 off the cut, condition numbers to 1e8.
_ITERATIONS = 16


def logm(a: Tensor) -> Tensor:
    """Principal logarithm of matrices `[..., n, n]`; NaN where there is none.

    Closed forms for n <= 3, inverse scaling and squaring beyond. Defined where no eigenvalue lies
    on the closed negative real axis.

    >>> import torch
    >>> logm(torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor([[0., 1.],
            [0., 0.]])
    """
    tensor(a, "matrices")
    if a.dim() < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"logm needs square matrices [..., n, n], got {list(a.shape)}.")
    X, valid = log_excess(a, a - eye_like(a))
    return torch.where(valid[..., None, None], X, torch.nan)


def log_excess(a: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithm of `a = I + e` and its validity; finite and arbitrary where invalid."""
    n = a.shape[-1]
    if n == 1:
        valid = a[..., 0, 0] > 0
        return torch.where(valid[..., None, None], e, 0).log1p(), valid
    if n == 2:
        return _gl2.log(a, e)
    if n == 3:
        X, _, valid = _gl3.log(a, e, torch.zeros_like(e[..., 0]))
        return X, valid
    return _general(a, e)


def margin(a: Tensor) -> Tensor:
    """Angle between the eigenvalues of `[..., n, n]` and the negative real axis, 0 if on it."""
    if a.shape[-1] == 2:
        return _gl2.margin(a)
    if a.shape[-1] == 3:
        return _gl3.margin(a)
    finite = a.isfinite().all(-1).all(-1)
    values = torch.linalg.eigvals(torch.where(finite[..., None, None], a.detach(), 0))
    size = values.abs()
    regular = size.amin(-1) > 16 * torch.finfo(a.dtype).eps * size.amax(-1)
    angles = torch.atan2(values.imag.abs(), -values.real).amin(-1)
    return torch.where(finite & regular, angles, 0)


def _general(a: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    valid = margin(a) > _resolution(a)
    safe = valid[..., None, None]
    a, e = torch.where(safe, a, eye_like(a)), torch.where(safe, e, 0)
    for level in range(ROOTS[a.dtype]):
        S = _root(a, polish=2 if level == 0 else 0)
        e = half(e, S)
        a = S
    X = torch.zeros_like(e)
    for node, weight in RULE[e.dtype]:
        X = X + weight * torch.linalg.solve(eye_like(e) + node * e, e)
    return X * 2.0 ** ROOTS[e.dtype], valid


def _resolution(a: Tensor) -> float:
    """Nearer to the cut than this, eigenvalues look real: matrices are reported off the chart."""
    return 16 * torch.finfo(a.dtype).eps ** 0.5


@torch.no_grad()
def _root(a: Tensor, polish: int) -> Tensor:
    """Principal square root: Newton's iteration in product form, then steps of plain Newton.

    The product form is fast but errs by eps / distance^2 next to the cut; plain steps, Sylvester
    equations on the true residual, bring it back to eps / distance. Only the first root needs them.
    """
    a = a.detach()
    eye = eye_like(a)
    X, M = a, a
    for _ in range(_ITERATIONS):
        inverse = torch.linalg.inv(M)
        mu2 = torch.linalg.det(M).abs().pow(-1 / a.shape[-1])[..., None, None]
        X = X @ (eye + inverse / mu2) * mu2.sqrt() / 2
        M = (eye + (mu2 * M + inverse / mu2) / 2) / 2
    for _ in range(polish):
        X = X + sylvester(X, a - X @ X)
    return X
