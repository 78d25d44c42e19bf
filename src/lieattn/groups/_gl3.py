"""GL(3): logarithm of 3x3 matrices, with the translation they carry.

It takes square roots until the matrix is near the identity (inverse scaling and
squaring). What is particular here:

* the first root goes through one orthogonal deflation, so its error is that of a backward stable
  algorithm however close a pair of eigenvalues comes to the negative axis;
* later roots have the closed form `(i1 A + i3 I)(A + i2 I)^-1`, whose invariants follow from those
  of the root before by three scalar square roots;
* each root's derivative is a Sylvester equation with a closed form (Cayley-Hamilton), so gradients
  never pass through eigenvectors and are finite at repeated eigenvalues.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core.small import adjugate, component_major, eye_like, inverse, mul, mul_vec, trace, widen
from ._deflation import Invariants, Root, first_root, root_matrix, solve_transposed
from ._quadrature import ROOTS, RULE
from ._roots import half, sylvester


class Log(NamedTuple):
    """Matrix logarithm `[..., 3, 3]`, `V^-1 t` `[..., 3]`, and where they are valid `[...]`."""

    X: Tensor
    u: Tensor
    valid: Tensor


def log(a: Tensor, e: Tensor, t: Tensor) -> Log:
    """Principal logarithm of `a = I + e` and `V(log a)^-1 t`; finite, arbitrary off the chart."""
    a, e, t = component_major(a, 2), component_major(e, 2), component_major(t, 1)
    roots = ROOTS[a.dtype]
    root, invariants, angle = first_root(a)
    valid = angle > 0
    S = root_matrix(root)
    e = torch.where(valid[..., None, None], e, 0)
    for level in range(roots):
        if level == 0:
            e = _first_half(e, S, root)
        else:
            S, invariants = _next_root(S, invariants)
            e = half(e, S)
        t = 2 * mul_vec(inverse(e + 2 * eye_like(e)), t)
    X = torch.zeros_like(e)
    u = torch.zeros_like(t)
    for node, weight in RULE[a.dtype]:
        R = inverse(eye_like(e) + node * e)
        X = X + weight * mul(e, R)
        u = u + weight * mul_vec(R, t)
    return Log(X * 2.0**roots, u, valid)


def margin(a: Tensor) -> Tensor:
    """Angle between the eigenvalues and the negative real axis; <= 0 when one lies on it."""
    return first_root(a)[2]


def quick_margin(a: Tensor) -> Tensor:
    """`margin` by Cardano's formula, at a fifth of the price of a root.

    In float64, because the discriminant cancels where the real eigenvalue is far off.
    """
    dtype, a = a.dtype, widen(a)
    mean = trace(a) / 3
    B = a - mean[..., None, None] * eye_like(a)
    third = -(B * B.mT).sum((-2, -1)) / 6  # l^3 + 3 third l - 2 half = 0 for l of B
    half = adjugate(B)[1] / 2
    discriminant = half.square() + third**3
    u = (half.abs() + discriminant.clamp(min=0).sqrt()) ** (1 / 3)
    u = torch.where(half < 0, -u, u)
    v = -third / torch.where(u != 0, u, 1)
    angle = torch.atan2((u - v).abs() * (3**0.5 / 2), (u + v) / 2 - mean)
    cofactors, det = adjugate(a)
    # Three real eigenvalues are positive if and only if all their symmetric functions are.
    positive = (det > 0) & (mean > 0) & (trace(cofactors) > 0)
    on_axis = torch.where(positive, torch.pi, 0.0).to(angle.dtype)
    return torch.where(discriminant > 0, torch.where(det > 0, angle, 0), on_axis).to(dtype)


# ---- the root and its derivative -------------------------------------------------------------


class _FirstHalf(torch.autograd.Function):
    """The same for the first root, with a Sylvester solver that keeps its digits at the cut."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        e: Tensor, S: Tensor, Q: Tensor, P: Tensor, r: Tensor, lam: Tensor, tr: Tensor
    ) -> Tensor:
        # Not *root: the compiler tells this form of forward by its number of parameters.
        return mul(e, inverse(S + eye_like(S)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output, *inputs[2:])
        ctx.save_for_forward(output, *inputs[2:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        excess, *root = ctx.saved_tensors
        Z = solve_transposed(root, grads[0].detach())
        return _with_derivatives(Z, excess.mT, grads[0]), None, *(None for _ in root)


class _FirstHalfWithForward(_FirstHalf):
    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        excess, *root = ctx.saved_tensors
        Z = solve_transposed(root, tangents[0].detach().mT).mT
        return _with_derivatives(Z, excess, tangents[0])


# The compiler of torch 2.13 takes no Function with a jvp, and forward mode none without.


def _first_half(e: Tensor, S: Tensor, root: Root) -> Tensor:
    step = _FirstHalf if torch.compiler.is_compiling() else _FirstHalfWithForward
    return step.apply(e, S, *root)


def _with_derivatives(Z: Tensor, excess: Tensor, G: Tensor) -> Tensor:
    """The constant Z, which solves `S Z + Z S = G`, S = I + excess, with derivatives in S and G.

    They come from the closed form, as those of a correction that vanishes.
    """
    if not torch.is_grad_enabled():
        return Z
    S = excess + eye_like(excess)
    correction = sylvester(S, G - mul(S, Z) - mul(Z, S))
    return Z + (correction - correction.detach())


@torch.no_grad()
def _next_root(S: Tensor, invariants: Invariants) -> tuple[Tensor, Invariants]:
    """Root of S, whose eigenvalues lie in the right half plane, from its invariants alone."""
    lam, tr, det = invariants
    lam, det = lam.sqrt(), det.sqrt()
    tr = (tr + 2 * det).sqrt()
    i1, i2, i3 = lam + tr, lam * tr + det, lam * det
    eye = eye_like(S)
    numerator = i1[..., None, None] * S + i3[..., None, None] * eye
    return mul(numerator, inverse(S + i2[..., None, None] * eye)), (lam, tr, det)
