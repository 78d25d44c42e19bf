"""Messages for wrong input: what was wrong, what was expected, how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .base import Group

_FLOATS = (torch.float32, torch.float64)


def tensor(x: Any, what: str) -> Tensor:
    """`x` if it is a float32 or float64 tensor; the message says how to convert otherwise."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{what} must be a torch.Tensor, got {type(x).__name__}. Use torch.as_tensor(...)."
        )
    if x.dtype not in _FLOATS:
        raise ValueError(
            f"{what} must be float32 or float64, got {str(x.dtype).removeprefix('torch.')}: "
            "geometry below float32 loses equivariance. Use .float()."
        )
    return x


def poses(group: Group, g: Any, name: str = "poses") -> Tensor:
    """`g` if it has the shape and dtype of poses of the group. Reads no values."""
    what = f"{group} {name}"
    m = group.matrix_size
    if isinstance(g, Tensor) and g.shape[-2:] != (m, m):
        message = f"{what} must have shape [..., {m}, {m}], got {list(g.shape)}. "
        raise ValueError((message + group._shape_hint(g)).strip())
    return tensor(g, what)


def coordinates(group: Group, x: Any, sizes: tuple[int, ...] | None = None) -> Tensor:
    """`x` if it has the shape and dtype of algebra coordinates of the group."""
    sizes = sizes or (group.dim,)
    if isinstance(x, Tensor) and (x.dim() == 0 or x.shape[-1] not in sizes):
        expected = " or ".join(f"[..., {size}]" for size in sizes)
        names = " + ".join(f"{b.name} ({b.dim})" for b in group.blocks)
        raise ValueError(
            f"{group} coordinates must have shape {expected}, got {list(x.shape)}: {names}. "
            "For an algebra matrix use vee first."
        )
    return tensor(x, f"{group} coordinates")


def vectors(x: Any, size: int, what: str) -> Tensor:
    """`x` if it is `[..., size]`."""
    if isinstance(x, Tensor) and x.shape[-1:] != (size,):
        raise ValueError(f"{what} must have shape [..., {size}], got {list(x.shape)}.")
    return tensor(x, what)


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
    return g


def contains(group: Group, g: Any) -> Tensor:
    """Where `check` finds nothing wrong, `[...]`."""
    poses(group, g, "poses")
    inside = g.isfinite().all(-1).all(-1)
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
