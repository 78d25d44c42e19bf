"""`product`: poses of several groups at once, as one block-diagonal matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, reduce
from typing import Any

import torch
from torch import Tensor

from .._core.small import block_diagonal
from . import checks
from ._blocks import numbered
from ._charts import Chart
from .base import Draw, Group


def product(*factors: Group) -> Group:
    """The direct product of groups: a pose is one of each, on the diagonal of a matrix.

    Sizes, dimensions and blocks add up: first all blocks of the first factor, then those of the
    second; repeated names are numbered. Every function is that of the factors, in closed form
    where they have one. The factors of a factor that is a product become factors.

    Raises ValueError without factors and TypeError for a factor that is not a group.

    >>> from lieattn import SE3, SO2, product
    >>> arm = product(SE3, SO2)
    >>> arm, arm.matrix_size, [block.name for block in arm.blocks]
    (lieattn.product(lieattn.SE3, lieattn.SO2), 6, ['translation', 'rotation', 'rotation2'])
    >>> g = arm.join(SE3.random(5), SO2.random(5))
    >>> [part.shape[-1] for part in arm.split(g)]
    [4, 2]
    """
    for factor in factors:
        if not isinstance(factor, Group):
            raise TypeError(
                f"factors of a product must be groups, got {type(factor).__name__}; "
                "use get_group(name) for a name."
            )
    flat: list[Group] = []
    for factor in factors:
        flat += factor.factors if isinstance(factor, Product) else [factor]
    if not flat:
        raise ValueError("a product needs at least one group, such as product(SE3, SO2).")
    return flat[0] if len(flat) == 1 else _made(*flat)


class ProductChart(Chart):
    """The charts of all factors; coordinates beyond those of the algebras come last."""

    def __init__(self, group: Product, name: str) -> None:
        super().__init__(group, name)
        self.factors = [factor.chart(name) for factor in group.factors]
        added = [b for own in self.factors for b in own.blocks[len(own.group.blocks) :]]
        self.blocks = numbered((*group.blocks, *added))
        self.margin = max(own.margin for own in self.factors)
        self.is_global = all(own.is_global for own in self.factors)
        self._parts = group._parts

    def resolution(self, dtype: torch.dtype) -> float:
        return max(own.resolution(dtype) for own in self.factors)

    def exp(self, x: Tensor) -> Tensor:
        return block_diagonal(self._each(lambda own, y: own.exp(y), self._split(x)))

    def log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return self._joined(self._each(lambda own, part: own.log(part), self._parts(g)))

    def relation(self, a: Tensor, b: Tensor, margin: float = 0.0) -> tuple[Tensor, Tensor]:
        pairs = self._parts(a), self._parts(b)
        return self._joined(self._each(lambda own, x, y: own.relation(x, y, margin), *pairs))

    def clearance(self, g: Tensor) -> Tensor:
        found = self._each(lambda own, part: own.clearance(part), self._parts(g))
        return reduce(torch.minimum, found)

    def left_jacobian(self, x: Tensor) -> Tensor:
        return block_diagonal(self._each(lambda own, y: own.left_jacobian(y), self._split(x)))

    def right_jacobian(self, x: Tensor) -> Tensor:
        return block_diagonal(self._each(lambda own, y: own.right_jacobian(y), self._split(x)))

    def _each(self, f: Callable[..., Any], *parts: Iterable[Tensor]) -> list[Any]:
        """f of every factor and its part."""
        return list(map(f, self.factors, *parts))

    def _split(self, x: Tensor) -> Iterable[Tensor]:
        """Coordinates of each factor; those that a chart adds to its algebra's are its last."""
        dims = [own.group.dim for own in self.factors]
        if x.shape[-1] == self.group.dim:
            return x.split(dims, dim=-1)
        parts = x.split([*dims, *(own.dim - own.group.dim for own in self.factors)], dim=-1)
        pairs = zip(parts[: len(dims)], parts[len(dims) :], strict=True)
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def _joined(self, parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of all factors from those of each."""
        dims = [own.group.dim for own in self.factors]
        heads = [x[..., :dim] for dim, (x, _) in zip(dims, parts, strict=True)]
        tails = [x[..., dim:] for dim, (x, _) in zip(dims, parts, strict=True)]
        return torch.cat(heads + tails, dim=-1), reduce(torch.logical_and, [v for _, v in parts])


class Product(Group):
    """A direct product of groups, none of which is a product."""

    def __init__(self, *factors: Group) -> None:
        self.factors = factors
        self.name = " x ".join(factor.name for factor in factors)
        self._sizes = [factor.matrix_size for factor in factors]
        # As for groups known by their generators alone: no column is of translations alone.
        self.n = self.matrix_size = sum(self._sizes)
        self.charts = tuple(
            chart for chart in factors[0].charts if all(chart in f.charts for f in factors)
        )
        self.blocks = numbered(block for factor in factors for block in factor.blocks)
        self._prepare()

    def __str__(self) -> str:
        return " x ".join(map(str, self.factors))

    def __repr__(self) -> str:
        return f"lieattn.product({', '.join(map(repr, self.factors))})"

    def __reduce__(self) -> tuple[Callable[..., Group], tuple[Group, ...]]:  # type: ignore[override]
        return product, self.factors

    def __deepcopy__(self, memo: object) -> Group:
        return self

    # ---- parts -------------------------------------------------------------------------------

    def split(self, g: Tensor) -> tuple[Tensor, ...]:
        """Poses of each factor, `[..., m_k, m_k]`, of poses `[..., m, m]`."""
        return self._parts(checks.poses(self, g))

    def join(self, *parts: Tensor) -> Tensor:
        """Poses `[..., m, m]` from those of each factor; batch shapes broadcast."""
        if len(parts) != len(self.factors):
            raise ValueError(f"{self} has {len(self.factors)} factors, got {len(parts)} parts.")
        for factor, part in zip(self.factors, parts, strict=True):
            checks.poses(factor, part)
        return block_diagonal(parts)

    def _parts(self, g: Tensor) -> tuple[Tensor, ...]:
        stops = [sum(self._sizes[: k + 1]) for k in range(len(self._sizes))]
        spans = [slice(stop - size, stop) for size, stop in zip(self._sizes, stops, strict=True)]
        return tuple(g[..., span, span] for span in spans)

    def _each(self, f: Callable[..., Tensor], *poses: Tensor) -> list[Tensor]:
        """f of every factor and its part of the poses."""
        return list(map(f, self.factors, *map(self._parts, poses)))

    # ---- description -------------------------------------------------------------------------

    def _make_chart(self, name: str) -> Chart:
        return ProductChart(self, name)

    def _generators(self) -> Tensor:
        out = torch.zeros(self.dim, self.matrix_size, self.matrix_size, dtype=torch.float64)
        row = 0
        for factor, place in zip(self.factors, self._parts(out), strict=True):
            place[row : row + factor.dim] = factor._generators64
            row += factor.dim
        return out

    @property
    def _units(self) -> list[float]:
        return [unit for factor in self.factors for unit in factor._units]

    # ---- group operations --------------------------------------------------------------------

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        return block_diagonal(self._each(lambda f, x, y: f.compose(x, y), a, b))

    def inverse(self, g: Tensor) -> Tensor:
        checks.poses(self, g)
        return block_diagonal(self._each(lambda f, part: f.inverse(part), g))

    def relative(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a)
        checks.poses(self, b)
        return block_diagonal(self._each(lambda f, x, y: f.relative(x, y), a, b))

    def adjoint(self, g: Tensor) -> Tensor:
        checks.poses(self, g)
        return block_diagonal(self._each(lambda f, part: f.adjoint(part), g))

    def _random(self, batch: tuple[int, ...], draw: Draw) -> Tensor:
        return block_diagonal([factor._random(batch, draw) for factor in self.factors])

    # The principal chart is that of the factors too.

    def _exp(self, x: Tensor) -> Tensor:
        return self.chart().exp(x)

    def _log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return self.chart().log(g)

    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.chart().relation(a, b)

    def _clearance(self, g: Tensor) -> Tensor:
        return self.chart().clearance(g)

    # ---- points ------------------------------------------------------------------------------

    @property
    def point_dim(self) -> int:
        """Dimensions of the points of all factors together."""
        return sum(factor.point_dim for factor in self.factors)

    def _act(self, g: Tensor, points: Tensor) -> Tensor:
        return torch.cat([f._act(part, p) for f, part, p in self._points(g, points)], dim=-1)

    def _to_local(self, g: Tensor, points: Tensor) -> Tensor:
        return torch.cat([f._to_local(part, p) for f, part, p in self._points(g, points)], dim=-1)

    def _points(self, g: Tensor, points: Tensor) -> list[tuple[Group, Tensor, Tensor]]:
        parts = points.split([factor.point_dim for factor in self.factors], dim=-1)
        return list(zip(self.factors, self._parts(g), parts, strict=True))

    # ---- checks ------------------------------------------------------------------------------

    def project(self, g: Tensor) -> Tensor:
        """The nearest element of each factor; entries off the diagonal blocks become zero."""
        checks.poses(self, g)
        return block_diagonal(self._each(lambda f, part: f.project(part), g))

    def _settle(self, g: Tensor) -> Tensor:
        return block_diagonal(self._each(lambda f, part: f._settle(part), g))

    def admits(self, g: Tensor) -> Tensor:
        inside = self._each(lambda f, part: f.admits(part), g)
        return reduce(torch.logical_and, inside, super().admits(g))

    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        kept = block_diagonal([torch.ones_like(part, dtype=torch.bool) for part in self._parts(g)])
        off = torch.where(kept, 0, g).abs().amax((-2, -1))
        text = (
            f"entries off its diagonal blocks are {{by}}. {self._spelt()}.project(g) resets them."
        )
        found = [(off, 0.0, text)]
        for k, (factor, part) in enumerate(zip(self.factors, self._parts(g), strict=True), 1):
            for defect, tolerance, text in factor._defect(part):
                text = text.replace("{group}", self._spelt())
                found.append((defect, tolerance, f"as to its factor {k}, {factor}, {text}"))
        return found

    def _shape_hint(self, g: Tensor) -> str:
        return f"For poses of each factor use {self._spelt()}.join(...)."

    def _spelt(self) -> str:
        """As a user writes it."""
        return repr(self).replace("lieattn.", "")


# One object per product, as there is one SE3: groups are compared by identity.
_made = cache(Product)
