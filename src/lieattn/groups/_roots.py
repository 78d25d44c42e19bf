"""One square root of a logarithm by repeated roots, with its derivative."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core.small import adjugate, eye_like, inverse, mul, trace


def half(e: Tensor, S: Tensor) -> Tensor:
    """`S - I` for the square root S of `I + e`; S is a constant, gradients are those of e."""
    # The compiler of torch 2.13 takes no Function with a jvp, and forward mode none without.
    return (_Half if torch.compiler.is_compiling() else _HalfWithForward).apply(e, S)


class _Half(torch.autograd.Function):
    """`S - I` as `e (S + I)^-1`, exact also where e is tiny.

    The derivative solves `S Z + Z S = dE`.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(e: Tensor, S: Tensor) -> Tensor:
        S = S + eye_like(S)
        return mul(e, inverse(S)) if S.shape[-1] == 3 else torch.linalg.solve(S, e, left=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (excess,) = ctx.saved_tensors
        return sylvester(excess.mT + eye_like(excess), grads[0]), None


class _HalfWithForward(_Half):
    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (excess,) = ctx.saved_tensors
        return sylvester(excess + eye_like(excess), tangents[0])


def sylvester(S: Tensor, G: Tensor) -> Tensor:
    """Solve `S Z + Z S = G` for S with eigenvalues in the right half plane."""
    return _sylvester3(S, G) if S.shape[-1] == 3 else _sylvester_system(S, G)


def _sylvester3(S: Tensor, G: Tensor) -> Tensor:
    """The same for 3x3 S, in closed form.

    Cayley-Hamilton turns it into `Z (2 i1 S^2 + 2 i3 I) = S^2 G - S G S + G S^2
    - i1 (S G - G S) + i2 G` with i1, i2, i3 the invariants of S.
    """
    adj, det = adjugate(S)
    i1, i2, i3 = (i[..., None, None] for i in (trace(S), trace(adj), det))
    A = mul(S, S)
    SG, GS = mul(S, G), mul(G, S)
    right = mul(S, SG) - mul(SG, S) + mul(GS, S) - i1 * (SG - GS) + i2 * G
    return mul(right, inverse(2 * (i1 * A + i3 * eye_like(S))))


def _sylvester_system(S: Tensor, G: Tensor) -> Tensor:
    """The same for any S, as one linear system of size n^2 per matrix."""
    n = S.shape[-1]
    eye = eye_like(S)
    # (S x I + I x S^T) acts on Z read row by row.
    left = S[..., :, None, :, None] * eye[None, :, None, :]
    right = eye[:, None, :, None] * S.mT[..., None, :, None, :]
    system = (left + right).reshape(*S.shape[:-2], n * n, n * n)
    return torch.linalg.solve(system, G.reshape(*G.shape[:-2], n * n, 1)).reshape(G.shape)
