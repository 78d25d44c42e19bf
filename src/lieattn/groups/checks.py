"""Messages for wrong input: what was wrong, what was expected, how to correct it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._core.tensors import common_batch, dense, tensor

if TYPE_CHECKING:
    from .base import Group


def poses(group: Group, g: Any, name: str = "poses") -> Tensor:
    """`g` if it has the shape and dtype of poses of the group. Reads no values."""
    what = f"{group} {name}"
    m = group.matrix_size
    if dense(g, what).shape[-2:] != (m, m):
        message = f"{what} must have shape [..., {m}, {m}], got {list(g.shape)}. "
        raise ValueError((message + group._shape_hint(g)).strip())
    return tensor(g, what)


def pose_set(group: Group, g: Any, name: str = "poses") -> Tensor:
    """`g` if it is a set of poses `[..., N, m, m]`."""
    m = group.matrix_size
    if poses(group, g, name).dim() < 3:
        hint = "pose add the dimension: poses[None]"
        if name != "poses":
            hint = "pair use group.log_relative(a, b)"
        raise ValueError(
            f"{group} {name} must be a set [..., N, {m}, {m}], got {list(g.shape)}. "
            f"For a single {hint}."
        )
    return g


def sets(group: Group, q: Any, k: Any) -> None:
    """Queries and keys are sets of poses of the group, with one batch."""
    pose_set(group, q, "query poses")
    pose_set(group, k, "key poses")
    if common_batch(q.shape[:-3], k.shape[:-3]) is None:
        raise ValueError(
            f"query and key poses must have the same batch, got {list(q.shape)} and "
            f"{list(k.shape)}."
        )


def coordinates(group: Group, x: Any, sizes: tuple[int, ...] = ()) -> Tensor:
    """`x` if it has the shape and dtype of coordinates of the group, by default its algebra's."""
    sizes = sizes or (group.dim,)
    if dense(x, f"{group} coordinates").dim() == 0 or x.shape[-1] not in sizes:
        expected = " or ".join(f"[..., {size}]" for size in dict.fromkeys(sizes))
        names = " + ".join(f"{b.name} ({b.dim})" for b in group.blocks)
        raise ValueError(
            f"{group} coordinates must have shape {expected}, got {list(x.shape)}: {names}. "
            "For an algebra matrix use vee first."
        )
    return tensor(x, f"{group} coordinates")


def check(group: Group, g: Any, name: str) -> Tensor:
    """`g` if every element is on the group, else ValueError on the first one that is not."""
    poses(group, g, name)
    finite = g.isfinite().all(-1).all(-1)
    if not finite.all():
        raise ValueError(
            f"{_where(group, name, ~finite)} holds NaN or infinity. Drop or mask it before use."
        )
    for defect, tolerance, text in group._defect(g.detach()):
        bad = ~(defect <= tolerance)
        if bad.any():
            by = defect[_first(bad)].item()
            raise ValueError(
                f"{_where(group, name, bad)} is not in {group}: "
                + text.format(by=f"{by:.2g}", tolerance=f"{tolerance:.0e}", group=group.name)
            )
    out_of_range = ~group.admits(g)
    if out_of_range.any():
        by = g.detach()[_first(out_of_range)].abs().max().item()
        raise ValueError(
            f"{_where(group, name, out_of_range)} is out of range, its largest entry is {by:.2g}: "
            "squares of distances would overflow. Choose another unit, or mask it."
        )
    return g


def contains(group: Group, g: Any) -> Tensor:
    """Where `check` finds nothing wrong, `[...]`."""
    poses(group, g, "poses")
    inside = group.admits(g)
    g = torch.where(inside[..., None, None], g, group.identity(dtype=g.dtype, device=g.device))
    for defect, tolerance, _ in group._defect(g.detach()):
        inside = inside & (defect <= tolerance)
    return inside


def _first(bad: Tensor) -> tuple[int, ...]:
    return tuple(bad.nonzero()[0].tolist())


def _where(group: Group, name: str, bad: Tensor) -> str:
    index = ", ".join(map(str, _first(bad)))
    total = f" ({int(bad.sum())} of {bad.numel()} are)" if bad.sum() > 1 else ""
    return f"{name}[{index}]{total}" if index else name
