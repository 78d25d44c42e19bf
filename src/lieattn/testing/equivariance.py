"""The equivariance error of a model, as defined in the paper."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Generator, Tensor, nn

from .._core.calls import evaluating
from ..groups import Group
from ..losses import squared_chord

FLOOR = {"SO": 1e-13, "SE": 1e-11, "Sim": 1e-10, "Aff": 1e-10, "other": 1e-9}
"""Squared algebra norm that rounding to float32 may cause, for poses of order 1. A relative pose is
rounded by eps |g^-1| |g|, and a network multiplies that by its Lipschitz constant, here below 10:
1e-13 is (5 eps)^2 for SO(n), SE(n) adds translations of some units, Aff(n) the condition of its
linear part, a group of your own an iteration for its logarithm."""


def equivariance_error(
    fn: Callable[[Tensor], Any],
    group: Group,
    poses: Tensor,
    trials: int = 10,
    *,
    generator: Generator | None = None,
) -> float:
    r"""Mean of $\|\log((a \hat g)^{-1}\, \hat g(a \cdot S))\|^2$ over random a, Section 5.

    Args:
        fn: from poses `[..., N, m, m]` to poses `[..., m, m]`, or to an object with `poses` or
            `pose`, such as a model's output. A module is measured in eval mode.
        group: the group that acts.
        poses: the set S, `[..., N, m, m]`.
        trials: how many random elements `a` (`group.random`) move the set.
        generator: draws them; the default gives the same elements every time.
    Returns:
        The mean over trials, batch and tokens, in orthonormal coordinates. Outputs are compared in
        float64, so that the comparison adds no error. Pairs of outputs without a logarithm count
        with their squared Frobenius distance.

    >>> import lieattn as la
    >>> equivariance_error(la.LieTransformer(la.SE3), la.SE3, la.SE3.random(2, 8)) < 1e-11
    True
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1, got {trials}.")
    generator = generator or torch.Generator().manual_seed(0)
    elements = group.random(trials, generator=generator, dtype=poses.dtype).to(poses.device)
    mode = evaluating(fn) if isinstance(fn, nn.Module) else nullcontext()
    with torch.no_grad(), mode:
        plain = _poses_of(fn(poses), group).double()
        total = 0.0
        for a in elements:
            moved = _poses_of(fn(group.compose(a, poses)), group).double()
            total += _squared_distance(group, group.compose(a.double(), plain), moved)
    return total / trials


def invariance_error(
    fn: Callable[[Tensor], Tensor],
    group: Group,
    poses: Tensor,
    trials: int = 10,
    *,
    generator: Generator | None = None,
) -> float:
    """Mean squared change of `fn(poses)` when random elements move all poses.

    Args:
        fn: from poses `[..., N, m, m]` to a tensor: hidden states, logits, a read-out.
        group, poses, trials, generator: as for `equivariance_error`.

    >>> import lieattn as la
    >>> model = la.LieTransformer(la.SE3)
    >>> invariance_error(lambda g: model(g).hidden, la.SE3, la.SE3.random(2, 8)) < 1e-10
    True
    """
    generator = generator or torch.Generator().manual_seed(0)
    elements = group.random(trials, generator=generator, dtype=poses.dtype).to(poses.device)
    mode = evaluating(fn) if isinstance(fn, nn.Module) else nullcontext()
    with torch.no_grad(), mode:
        plain = fn(poses)
        if not isinstance(plain, Tensor):
            raise TypeError(f"the function must return a tensor, got {type(plain).__name__}.")
        moved = [fn(group.compose(a, poses)) for a in elements]
    return sum((x - plain).double().square().mean().item() for x in moved) / trials


def assert_invariant(
    fn: Callable[[Tensor], Tensor],
    group: Group,
    poses: Tensor | None = None,
    *,
    tolerance: float = 1e-9,
    trials: int = 10,
) -> None:
    """Raise AssertionError if a function of poses changes when all of them move.

    Args:
        fn: as for `invariance_error`.
        poses: a batch; the default is two random sets of 32.
        tolerance: largest mean squared change, for outputs of order 1 in float32.

    >>> import lieattn as la
    >>> model, head = la.LieTransformer(la.SE3), la.InvariantReadout(32, 10)
    >>> assert_invariant(lambda g: head(model(g).hidden), la.SE3)
    """
    poses = _default_poses(group) if poses is None else poses
    error = invariance_error(fn, group, poses, trials)
    if not error <= tolerance:
        raise AssertionError(
            f"not invariant under {group}: moving the input changes the output by {error:.1e} "
            f"(mean square over {trials} elements), allowed {tolerance:.1e}.{_hint(poses, error)}"
        )


def assert_equivariant(
    model: Callable[[Tensor], Any],
    group: Group,
    poses: Tensor | None = None,
    *,
    tolerance: float | None = None,
    trials: int = 10,
) -> None:
    """Raise AssertionError if the equivariance error exceeds what rounding explains.

    Args:
        model: as `fn` of `equivariance_error`.
        group: the group that acts.
        poses: a batch; the default is two random sets of 32.
        tolerance: largest squared algebra norm; the default is `allowed_error(group, dtype)`, for
            poses and translations of order 1.
        trials: how many random elements.

    >>> import lieattn as la
    >>> assert_equivariant(la.LieTransformer(la.Aff2), la.Aff2)
    """
    poses = _default_poses(group) if poses is None else poses
    allowed = allowed_error(group, poses.dtype) if tolerance is None else tolerance
    error = equivariance_error(model, group, poses, trials)
    if not error <= allowed:
        raise AssertionError(
            f"not equivariant under {group}: moving the input by a group element and moving the "
            f"output differ by {error:.1e} (squared algebra norm, mean over {trials} elements), "
            f"allowed {allowed:.1e}.{_hint(poses, error)}"
        )


def allowed_error(group: Group, dtype: torch.dtype) -> float:
    """Squared algebra norm that rounding alone may cause, for poses of order 1."""
    family = group.name.rstrip("0123456789")
    floor = FLOOR.get(family, FLOOR["other"])
    return floor * (torch.finfo(dtype).eps / torch.finfo(torch.float32).eps) ** 2


def _default_poses(group: Group) -> Tensor:
    return group.random(2, 32, generator=torch.Generator().manual_seed(1))


def _hint(poses: Tensor, error: float) -> str:
    """Other reasons for a large error: NaN, or poses that are not of order 1."""
    size = poses.abs().max().item()
    if error != error:
        return " The outputs hold NaN."
    if size > 30:
        return (
            f" The poses have entries up to {size:.0e}, and the limit is for poses of order 1: "
            "change the unit, use float64, or pass a tolerance."
        )
    return ""


def _squared_distance(group: Group, a: Tensor, b: Tensor) -> float:
    w, valid = group.relation(a, b)
    return torch.where(valid, w.square().sum(-1), squared_chord(group, a, b)).mean().item()


def _poses_of(output: Any, group: Group) -> Tensor:
    for name in ("poses", "pose"):
        output = getattr(output, name, output)
    if not isinstance(output, Tensor):
        raise TypeError(
            "the function must return poses, or an object with `poses` or `pose`, got "
            f"{type(output).__name__}."
        )
    if output.dim() < 2 or output.shape[-2:] != (group.matrix_size, group.matrix_size):
        raise ValueError(
            f"the function must return poses [..., {group.matrix_size}, {group.matrix_size}], got "
            f"{list(output.shape)}. For an invariant output use assert_invariant."
        )
    return output
