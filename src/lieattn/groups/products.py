"""`product`: poses of several groups at once, as one block-diagonal matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, reduce

import torch
from torch import Generator, Tensor

from .._core.small import block_diagonal
from . import checks
from .base import Block, Group, _Device


def product(*factors: Group) -> Group:
    """The direct product of groups: a pose is one of each, on the diagonal of a matrix.

    Sizes, dimensions and blocks add up: first all blocks of the first factor, then those of the
    second; names that come again are numbered. Everything is done by the factors, in closed form
    where they have one. A factor that is a product is taken apart.

    Raises ValueError without factors and TypeError for a factor that is no group.

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
        self.blocks = _numbered([factor.blocks for factor in factors])
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

    def _each(self, f: Callable[[Group, Tensor], Tensor], g: Tensor) -> Tensor:
        parts = zip(self.factors, self._parts(g), strict=True)
        return block_diagonal([f(factor, part) for factor, part in parts])

    def _coordinates(self, x: Tensor) -> list[Tensor]:
        """Coordinates of each factor; those that a chart adds to its algebra's are its last."""
        dims = [factor.dim for factor in self.factors]
        if x.shape[-1] == self.dim:
            return list(x.split(dims, dim=-1))
        extra = [factor.chart_dim("polar") - factor.dim for factor in self.factors]
        parts = x.split([*dims, *extra], dim=-1)
        pairs = zip(parts[: len(dims)], parts[len(dims) :], strict=True)
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def _joined(self, parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of all factors from those of each."""
        heads = [x[..., : f.dim] for f, (x, _) in zip(self.factors, parts, strict=True)]
        tails = [x[..., f.dim :] for f, (x, _) in zip(self.factors, parts, strict=True)]
        return torch.cat(heads + tails, dim=-1), reduce(torch.logical_and, [v for _, v in parts])

    def _pairs(self, a: Tensor, b: Tensor) -> list[tuple[Group, Tensor, Tensor]]:
        return list(zip(self.factors, self._parts(a), self._parts(b), strict=True))

    # ---- description -------------------------------------------------------------------------

    def _generators(self) -> Tensor:
        out = torch.zeros(self.dim, self.matrix_size, self.matrix_size, dtype=torch.float64)
        row = 0
        for factor, place in zip(self.factors, self._parts(out), strict=True):
            place[row : row + factor.dim] = factor._generators64
            row += factor.dim
        return out

    def chart_blocks(self, chart: str = "principal") -> tuple[Block, ...]:
        """Blocks of the factors; what a chart adds to those of the algebras comes last."""
        self._require_chart(chart)
        added = [f.chart_blocks(chart)[len(f.blocks) :] for f in self.factors]
        return _numbered([self.blocks, *added])

    def chart_margin(self, chart: str = "principal") -> float:
        self._require_chart(chart)
        return max(factor.chart_margin(chart) for factor in self.factors)

    def is_global(self, chart: str) -> bool:
        self._require_chart(chart)
        return all(factor.is_global(chart) for factor in self.factors)

    def resolution(self, chart: str, dtype: torch.dtype) -> float:
        return max(factor.resolution(chart, dtype) for factor in self.factors)

    def _blocks_of(self, x: Tensor) -> tuple[Block, ...]:
        if "polar" in self.charts:
            return super()._blocks_of(x)
        checks.coordinates(self, x)
        return self.blocks

    def _physical(self, x: Tensor) -> Tensor:
        self._blocks_of(x)  # a sentence for a wrong size
        parts = zip(self.factors, self._coordinates(x), strict=True)
        units = [(factor._physical(part), torch.ones_like(x[..., 0])) for factor, part in parts]
        return self._joined(units)[0]

    # ---- group operations --------------------------------------------------------------------

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        return block_diagonal([f.compose(x, y) for f, x, y in self._pairs(a, b)])

    def inverse(self, g: Tensor) -> Tensor:
        return self._each(lambda factor, part: factor.inverse(part), checks.poses(self, g))

    def relative(self, a: Tensor, b: Tensor) -> Tensor:
        checks.poses(self, a)
        checks.poses(self, b)
        return block_diagonal([f.relative(x, y) for f, x, y in self._pairs(a, b)])

    def adjoint(self, g: Tensor) -> Tensor:
        return self._each(lambda factor, part: factor.adjoint(part), checks.poses(self, g))

    def random(
        self,
        *batch: int,
        generator: Generator | None = None,
        dtype: torch.dtype | None = None,
        device: _Device = None,
    ) -> Tensor:
        """A random element of each factor."""
        return block_diagonal(
            [
                factor.random(*batch, generator=generator, dtype=dtype, device=device)
                for factor in self.factors
            ]
        )

    # ---- exponential and logarithm -----------------------------------------------------------

    def exp(self, x: Tensor, chart: str = "principal") -> Tensor:
        self._require_chart(chart)
        checks.coordinates(self, x, tuple({self.dim: 0, self.chart_dim(chart): 0}))
        parts = zip(self.factors, self._coordinates(x), strict=True)
        return block_diagonal([factor.exp(part, chart) for factor, part in parts])

    def _exp(self, x: Tensor) -> Tensor:
        return self.exp(x)

    def _log(self, g: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        parts = zip(self.factors, self._parts(g), strict=True)
        return self._joined([factor._log(part, chart) for factor, part in parts])

    def _log_relative(self, a: Tensor, b: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        return self._joined([f._log_relative(x, y, chart) for f, x, y in self._pairs(a, b)])

    def _log_with_margin(
        self, a: Tensor, b: Tensor, chart: str, margin: float
    ) -> tuple[Tensor, Tensor]:
        pairs = self._pairs(a, b)
        return self._joined([f._log_with_margin(x, y, chart, margin) for f, x, y in pairs])

    def _margin(self, g: Tensor, chart: str) -> Tensor:
        parts = zip(self.factors, self._parts(g), strict=True)
        return reduce(torch.minimum, [factor._margin(part, chart) for factor, part in parts])

    def _clearance(self, a: Tensor, b: Tensor, w: Tensor, chart: str) -> Tensor:
        pairs = zip(self._pairs(a, b), self._coordinates(w), strict=True)
        return reduce(torch.minimum, [f._clearance(x, y, z, chart) for (f, x, y), z in pairs])

    # ---- derivatives, points -----------------------------------------------------------------

    def _left_jacobian(self, x: Tensor, chart: str) -> Tensor:
        parts = zip(self.factors, self._coordinates(x), strict=True)
        return block_diagonal([factor._left_jacobian(part, chart) for factor, part in parts])

    def _right_jacobian(self, x: Tensor, chart: str) -> Tensor:
        parts = zip(self.factors, self._coordinates(x), strict=True)
        return block_diagonal([factor._right_jacobian(part, chart) for factor, part in parts])

    @property
    def point_dim(self) -> int:
        """Dimensions of the points of all factors together."""
        return sum(factor.point_dim for factor in self.factors)

    def _act(self, g: Tensor, points: Tensor) -> Tensor:
        split = self._points(g, points)
        return torch.cat([f._act(part, p) for f, part, p in split], dim=-1)

    def _to_local(self, g: Tensor, points: Tensor) -> Tensor:
        split = self._points(g, points)
        return torch.cat([f._to_local(part, p) for f, part, p in split], dim=-1)

    def _points(self, g: Tensor, points: Tensor) -> list[tuple[Group, Tensor, Tensor]]:
        parts = points.split([factor.point_dim for factor in self.factors], dim=-1)
        return list(zip(self.factors, self._parts(g), parts, strict=True))

    # ---- checks ------------------------------------------------------------------------------

    def project(self, g: Tensor) -> Tensor:
        """The nearest element of each factor; entries off the diagonal blocks become zero."""
        return self._each(lambda factor, part: factor.project(part), checks.poses(self, g))

    def _settle(self, g: Tensor) -> Tensor:
        return self._each(lambda factor, part: factor._settle(part), g)

    def admits(self, g: Tensor) -> Tensor:
        parts = zip(self.factors, self._parts(g), strict=True)
        inside = [factor.admits(part) for factor, part in parts]
        return reduce(torch.logical_and, inside, super().admits(g))

    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        kept = block_diagonal([torch.ones_like(part, dtype=torch.bool) for part in self._parts(g)])
        off = torch.where(kept, 0, g).abs().amax((-2, -1))
        text = (
            "entries off its diagonal blocks are {by}. "
            + self._spelt()
            + ".project(g) resets them."
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


# One object a product, as there is one SE3: groups are compared by identity.
_made = cache(Product)


def _numbered(parts: Sequence[Sequence[Block]]) -> tuple[Block, ...]:
    """Blocks one after another, with distinct names: the second rotation is "rotation2"."""
    seen: Counter[str] = Counter()
    out = []
    for block in (block for part in parts for block in part):
        name = block.name.rstrip("0123456789") or block.name
        seen[name] += 1
        out.append(Block(name if seen[name] == 1 else f"{name}{seen[name]}", block.dim, block.kind))
    return tuple(out)
