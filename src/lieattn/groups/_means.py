"""The weighted mean of poses: the fixed point sum_i w_i log(m^-1 g_i) = 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .._core.small import eye_like, mul, widen, widened
from .._core.tensors import common_batch, dense, readable
from . import _actions, checks

if TYPE_CHECKING:
    from .base import Group

_ROUNDS = 60  # of Newton's method with step control; five do for most sets
_BLIND_ROUNDS = 8  # where values cannot be read, and no round can be left out
_CLOSE = 1e-8  # the step after which one more is exact to rounding, as errors are squared
_STARTS = 4
_QUARTER = torch.pi / 2 - 1e-5


class _Point(NamedTuple):
    """A candidate `pose [..., m, m]`, seen from which poses have coordinates `[..., N, dim]`."""

    pose: Tensor
    coords: Tensor
    valid: Tensor  # [..., N]
    slope: Tensor  # H = sum_i w_i J_l(coords_i)^-1, [..., dim, dim]
    step: Tensor  # Newton's, [..., dim]


def mean(group: Group, g: Tensor, weights: Tensor | None) -> Tensor:
    """See `Group.mean`."""
    given, w = _operands(group, g, weights)
    # Poses that are left out may hold NaN, which is not to reach gradients.
    there = torch.where((w > 0)[..., None, None], given, eye_like(given))
    wide, w = widened(there), widen(w)
    with torch.no_grad():
        nearest = _starts(group, wide, w)
        point, done = _iterate(group, wide, w, nearest[..., 0, :, :])
        if readable(wide, w):
            _require_finite(there)
            point, done = _from_others(group, wide, w, nearest, point, done)
            if not done.all():
                group.check(there)  # matrices outside the group are the likelier reason
            point = _require_unique(group, wide, w, point, done, torch.finfo(g.dtype).eps)
    # One more step, from a constant: it carries the derivatives of the fixed point.
    x, _ = group.relation(point.pose[..., None, :, :], wide)
    step = _actions.solve(point.slope, (w[..., None] * x).sum(-2))
    return group.retract(point.pose, step).to(g.dtype)


def _operands(group: Group, g: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Poses `[..., N, m, m]` and weights `[..., N]` of sum one."""
    m = group.matrix_size
    if checks.poses(group, g).dim() < 3 or g.shape[-3] == 0:
        raise ValueError(
            f"the mean of {group} poses needs [..., N, {m}, {m}] with N >= 1, got {list(g.shape)}."
        )
    if weights is None:
        weights = g.new_ones(g.shape[-3])
    w = dense(weights, "weights").to(g.dtype)
    batch = common_batch(g.shape[:-2], w.shape)
    if batch is None or w.dim() == 0 or batch[-1] != g.shape[-3]:
        raise ValueError(
            f"weights must broadcast to {list(g.shape[:-2])}, one a pose, got {list(w.shape)}."
        )
    if readable(w):
        _require_weights(w)
    w = w.nan_to_num(0.0).clamp(min=0).expand(batch)
    total = w.sum(-1, keepdim=True)
    return g.expand(*batch, m, m), w / torch.where(total > 0, total, 1)


def _require_weights(w: Tensor) -> None:
    wrong = ~(w.isfinite() & (w >= 0))
    if wrong.any():
        index = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"weights{index} is {w[tuple(index)].item():g}; weights must be finite and not "
            "negative, 0 leaves a pose out."
        )
    if not (w.sum(-1) > 0).all():
        raise ValueError("all weights of a set are zero; at least one pose must have a weight.")


def _require_finite(g: Tensor) -> None:
    wrong = ~g.isfinite().all(-1).all(-1)
    if wrong.any():
        index = wrong.nonzero()[0].tolist()
        raise ValueError(f"poses{index} holds NaN or infinity; a weight of 0 leaves it out.")


def _starts(group: Group, g: Tensor, w: Tensor) -> Tensor:
    """The few poses from which the arithmetic mean of the matrices looks nearest to the identity.

    They move with the scene, and an outlier is not the first. `[..., at most 4, m, m]`.
    """
    centre = (w[..., None, None] * g).sum(-3, keepdim=True)
    off = (mul(group.inverse(g), centre) - eye_like(g)).square().sum((-2, -1))
    off = torch.where(w > 0, off, torch.inf).nan_to_num(torch.inf)
    chosen = off.topk(min(_STARTS, g.shape[-3]), largest=False).indices
    return torch.take_along_dim(g, chosen[..., None, None], dim=-3)


def _from_others(
    group: Group, g: Tensor, w: Tensor, starts: Tensor, point: _Point, done: Tensor
) -> tuple[_Point, Tensor]:
    """From other starts too, where the first does not see all poses."""
    for start in starts.unbind(-3)[1:]:
        good = done & point.valid.all(-1)
        if good.all():
            break
        other, found = _iterate(group, g, w, start)
        better = ~good & found & other.valid.all(-1)
        point, done = _chosen(better, other, point), done | better
    return point, done


def _iterate(group: Group, g: Tensor, w: Tensor, start: Tensor) -> tuple[_Point, Tensor]:
    """Newton's method, halving steps until they lower the next one, and where it is done."""
    point = _point(group, g, w, start)
    scale = torch.ones_like(point.step[..., :1])
    eager = readable(g, w)
    for _ in range(_ROUNDS if eager else _BLIND_ROUNDS):
        if eager and _done(point).all():
            break
        candidate = _point(group, g, w, group.retract(point.pose, scale * point.step))
        # Measured by the old slope: no unit of length weighs more than another.
        next_step = _step(point.slope, candidate.coords, w)
        better = next_step.norm(dim=-1) <= (1 - scale[..., 0] / 4) * point.step.norm(dim=-1)
        better = better & (candidate.valid | ~point.valid).all(-1)
        point = _chosen(better, candidate, point)
        scale = torch.where(better[..., None], (2 * scale).clamp(max=1), scale / 2)
    return point, _done(point)


def _point(group: Group, g: Tensor, w: Tensor, pose: Tensor) -> _Point:
    x, valid = group.relation(pose[..., None, :, :], g)
    inverse = group.left_jacobian_inverse(x).nan_to_num(0.0, 0.0, 0.0)
    slope = (w[..., None, None] * inverse).sum(-3)
    # Without a weight there is no slope: the step is then 0, and not NaN.
    slope = slope + (w.sum(-1) == 0)[..., None, None] * eye_like(slope)
    return _Point(pose, x, valid | (w == 0), slope, _step(slope, x, w))


def _step(slope: Tensor, x: Tensor, w: Tensor) -> Tensor:
    pull = (w[..., None] * x).sum(-2)
    step = _actions.solve(slope, pull)
    return torch.where(step.isfinite().all(-1, keepdim=True), step, pull)


def _done(point: _Point) -> Tensor:
    largest = point.coords.norm(dim=-1).amax(-1)
    close = max(_CLOSE, torch.finfo(largest.dtype).eps ** 0.75)
    return point.step.norm(dim=-1) <= close * (1 + largest)


def _chosen(better: Tensor, a: _Point, b: _Point) -> _Point:
    """a where it is better, b elsewhere."""
    pairs = zip(a, b, strict=True)
    return _Point(
        *(
            torch.where(better.reshape(*better.shape, *[1] * (x.dim() - better.dim())), x, y)
            for x, y in pairs
        )
    )


# ---- uniqueness, where values can be read ----------------------------------------------------


def _require_unique(
    group: Group, g: Tensor, w: Tensor, point: _Point, done: Tensor, eps: float
) -> _Point:
    """The mean nearest to the poses; ValueError where there is none, or another as near."""
    angles = _angles(group, point.coords)
    if angles is not None:
        far = (torch.where((w > 0)[..., None], angles, 0) > _QUARTER).any(-1).any(-1)
        if far.any():
            rival, found = _iterate(group, g, w, _other_start(group, w, point, angles))
            found = found & far & rival.valid.all(-1)
            cost, other_cost = _cost(group, w, point), _cost(group, w, rival)
            usable = done & point.valid.all(-1)
            apart = group.local(point.pose, rival.pose).norm(dim=-1)
            tie = (other_cost - cost).abs() <= max(8 * eps, 1e-9) * cost
            _refuse(group, usable & found & tie & ~(apart < 1e-4), "are half a turn apart")
            nearer = found & ((other_cost < cost) | ~usable)
            point, done = _chosen(nearer, rival, point), done | nearer
    _refuse(group, ~point.valid.all(-1), "are off the chart as seen from it")
    _refuse(group, ~done, "are too far apart: iterations do not converge")
    return point


def _refuse(group: Group, bad: Tensor, why: str) -> None:
    if bad.any():
        index = bad.nonzero()[0].tolist()
        which = f"set {index} of " if index else ""
        raise ValueError(
            f"{which}{group} poses have no unique mean: some {why}; "
            "leave those out with a weight of 0."
        )


def _angles(group: Group, x: Tensor) -> Tensor | None:
    """Angles of each rotation block, `[..., N, R]`."""
    sizes = [block.dim for block in group.blocks]
    parts = zip(group.blocks, group.to_physical(x).split(sizes, dim=-1), strict=True)
    found = [part.norm(dim=-1) for block, part in parts if block.kind == "rotation"]
    return torch.stack(found, dim=-1) if found else None


def _cost(group: Group, w: Tensor, point: _Point) -> Tensor:
    angles = _angles(group, point.coords)
    return w.new_zeros(()) if angles is None else (w[..., None] * angles.square()).sum((-2, -1))


def _other_start(group: Group, w: Tensor, point: _Point, angles: Tensor) -> Tensor:
    """Where the mean would be if the pose of the largest angle were reached the other way round."""
    angles = torch.where((w > 0)[..., None], angles, 0)
    largest = angles.amax((-2, -1), keepdim=True)
    turned = (angles == largest) & ((angles == largest).flatten(-2).cumsum(-1) == 1).view_as(angles)
    factor = torch.where(turned, 1 - 2 * torch.pi / angles.clamp(min=1e-9), 1)
    parts = list(point.coords.split([block.dim for block in group.blocks], dim=-1))
    rotations = [i for i, block in enumerate(group.blocks) if block.kind == "rotation"]
    for k, i in enumerate(rotations):
        parts[i] = parts[i] * factor[..., k, None]
    pull = (w[..., None] * torch.cat(parts, dim=-1)).sum(-2)
    return group.retract(point.pose, pull)
