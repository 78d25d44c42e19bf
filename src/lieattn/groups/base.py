"""What a token is: the `Group` interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from .._core.small import mul, same_dtype
from .._core.text import unknown
from . import checks
from ._blocks import Block
from ._calculus import Calculus
from ._charts import CHARTS as CHARTS
from ._charts import Chart

# Of the entries of a pose: products of poses, and squares of distances, stay within float32.
LARGEST = 2e18

Device = torch.device | str | None


class Draw(NamedTuple):
    """Where random numbers come from, and what they are made as."""

    generator: Generator | None = None
    dtype: torch.dtype | None = None
    device: Device = None

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=self.dtype, device=self.device)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, dtype=self.dtype, device=self.device)


class Group(Calculus, ABC):
    r"""A matrix Lie group. Stateless: poses are plain tensors `[..., m, m]`.

    Algebra coordinates `[..., dim]` are taken in a Frobenius-orthonormal basis ordered by block
    (translation, rotation, scale, shear), Section 2.2 of the paper: a rotation coordinate is
    $\sqrt 2$ times the angle. `to_physical` and `from_physical` convert at the edge.

    A subclass sets the four attributes below and implements `_generators`, `inverse`, `_random`,
    `project`, `_defect`, and the closed forms of the principal chart: `_exp`, `_log`,
    `_log_relative`, `_clearance`. Everything else follows.
    """

    name: str
    n: int  # dimension of the space the group acts on
    matrix_size: int  # m
    blocks: tuple[Block, ...]
    charts: tuple[str, ...] = CHARTS

    # ---- description -------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Dimension of the algebra, the number of coordinates of `log`."""
        return sum(block.dim for block in self.blocks)

    def coordinates_of(self, kind: str) -> list[int]:
        """Indices of the coordinates of all blocks of a kind."""
        kinds = [block.kind for block in self.blocks for _ in range(block.dim)]
        return [i for i, own in enumerate(kinds) if own == kind]

    @cached_property
    def position_entries(self) -> Tensor:
        """Which entries of a pose are positions, `[m, m]`: where translations have theirs.

        Another unit of length multiplies them and leaves the other entries alone.
        """
        moved = self._generators64[self.coordinates_of("translation")]
        return (moved.abs() > 1e-6).any(0)

    def __str__(self) -> str:
        head = self.name.rstrip("0123456789")
        return f"{head}({self.name[len(head) :]})" if head != self.name else self.name

    def __repr__(self) -> str:
        return f"lieattn.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], Group], tuple[str]]:
        # A group is its name: copying or pickling a model must not copy the group.
        from .registry import get_group

        return get_group, (self.name,)

    @abstractmethod
    def _generators(self) -> Tensor:
        """Orthonormal basis `[dim, m, m]` in float64, ordered by block."""

    @cached_property
    def _generators64(self) -> Tensor:
        return self._generators()

    def basis(self, *, dtype: torch.dtype | None = None, device: Device = None) -> Tensor:
        """Frobenius-orthonormal basis of the algebra, `[dim, m, m]`."""
        return self._generators64.to(dtype=dtype or torch.get_default_dtype(), device=device)

    # ---- charts ------------------------------------------------------------------------------

    def chart(self, name: str = "principal") -> Chart:
        """The chart of a name: its blocks, margin, exponential and logarithm.

        >>> import lieattn as la
        >>> la.Aff2.chart("polar").is_global
        True
        """
        if name not in self._charts:
            raise ValueError(unknown("chart", name, self._charts, f" for {self}"))
        return self._charts[name]

    @cached_property
    def _charts(self) -> dict[str, Chart]:
        return {name: self._make_chart(name) for name in self.charts}

    def _make_chart(self, name: str) -> Chart:
        # Charts of both names are the logarithm, but for Aff(n).
        return Chart(self, name)

    def chart_blocks(self, chart: str = "principal") -> tuple[Block, ...]:
        """Blocks of the coordinates that `log(g, chart)` returns."""
        return self.chart(chart).blocks

    def chart_dim(self, chart: str = "principal") -> int:
        """Number of coordinates that `log(g, chart)` returns."""
        return self.chart(chart).dim

    def chart_margin(self, chart: str = "principal") -> float:
        """Angle to the cut that layers and models require of pairs (see `Chart.margin`)."""
        return self.chart(chart).margin

    def is_global(self, chart: str) -> bool:
        """Whether every pair has coordinates in the chart (see `Chart.is_global`)."""
        return self.chart(chart).is_global

    # ---- group operations --------------------------------------------------------------------

    def identity(
        self, *batch: int, dtype: torch.dtype | None = None, device: Device = None
    ) -> Tensor:
        """Identity elements, `[*batch, m, m]`."""
        m = self.matrix_size
        return torch.eye(m, dtype=dtype, device=device).expand(*batch, m, m).clone()

    def random(
        self,
        *batch: int,
        generator: Generator | None = None,
        dtype: torch.dtype | None = None,
        device: Device = None,
    ) -> Tensor:
        """Random elements `[*batch, m, m]`: rotations Haar-distributed, translations normal.

        Logarithms of scales are normal with standard deviation 1/2, coordinates of shear with 1/3;
        elements of a `matrix_group` are products of two exponentials of normal coordinates with
        standard deviation 1/2.
        """
        return self._random(batch, Draw(generator, dtype, device))

    @abstractmethod
    def _random(self, batch: tuple[int, ...], draw: Draw) -> Tensor: ...

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        """Product `a b`; batch shapes broadcast."""
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        return mul(*same_dtype(a, b))

    @abstractmethod
    def inverse(self, g: Tensor) -> Tensor:
        """Inverse, `[..., m, m]`."""

    def relative(self, a: Tensor, b: Tensor) -> Tensor:
        """Relative pose `a^-1 b`; the same for `(c a, c b)` whatever the `c` of the group."""
        return mul(self.inverse(a), checks.poses(self, b))

    # ---- exponential and logarithm -----------------------------------------------------------

    def exp(self, x: Tensor, chart: str = "principal") -> Tensor:
        """Poses `[..., m, m]` of coordinates `[..., dim]`: the inverse of `log` in the same chart.

        In the polar chart of Aff(n) the coordinates may end with the parity, `[..., dim + 1]`;
        without it the result lies in the identity component, all of which is reached.
        """
        own = self.chart(chart)
        return own.exp(own.checked(x))

    def log(self, g: Tensor, chart: str = "principal") -> Tensor:
        """Coordinates of the logarithm, `[..., dim]`; NaN where `g` has no principal logarithm.

        At an exact half turn of SO(n), SE(n) and Sim(n), one of the two valid values is returned.
        """
        w, valid = self.chart(chart).log(checks.poses(self, g))
        return torch.where(valid[..., None], w, torch.nan)

    def log_relative(self, a: Tensor, b: Tensor, chart: str = "principal") -> Tensor:
        """`log(a^-1 b)`, accurate to within rounding also where `a` and `b` nearly coincide."""
        w, valid = self.relation(a, b, chart)
        return torch.where(valid[..., None], w, torch.nan)

    def relation(
        self, a: Tensor, b: Tensor, chart: str = "principal", margin: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """`log(a^-1 b)` and where it exists; zero, with zero gradient, where it does not.

        With a margin, in radians, pairs that are closer to the cut have none either. In a chart
        that is global they do: of the two values that agree at a half turn, the one on a fixed
        side is returned, so that it does not depend on rounding.
        """
        own = self.chart(chart)
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        w, valid = own.relation(a, b, margin)
        return torch.where(valid[..., None], w, 0), valid

    def in_chart(self, g: Tensor, margin: float = 0.0, chart: str = "principal") -> Tensor:
        """True where every eigenvalue of `g` keeps its argument below pi - margin, `[...]`.

        The logarithm is unique and smooth there. An exact half turn is not in the chart. In the
        polar chart of Aff(n) the argument is that of the rotation factor.
        """
        own = self.chart(chart)
        return own.clearance(checks.poses(self, g)) > margin

    @abstractmethod
    def _exp(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _log(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of log(g).

        Where a pose has no logarithm the coordinates are finite, arbitrary, and have finite
        gradients.
        """

    @abstractmethod
    def _log_relative(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of log(a^-1 b), formed from b - a where that cancels."""

    @abstractmethod
    def _clearance(self, g: Tensor) -> Tensor:
        """Angle in radians between the eigenvalues and the negative real axis, `[...]`."""

    def _pair_clearance(self, a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        """`_clearance` of a^-1 b, whose coordinates are w; override where w gives it."""
        return self._clearance(self.relative(a, b))

    # ---- algebra -----------------------------------------------------------------------------

    def hat(self, x: Tensor) -> Tensor:
        """Algebra matrix `[..., m, m]` of coordinates `[..., dim]`."""
        checks.coordinates(self, x)
        # A sum of products, not einsum: autocast would run einsum in bfloat16.
        basis = self.basis(dtype=x.dtype, device=x.device)
        return (x[..., None, None] * basis).sum(-3)

    def vee(self, X: Tensor) -> Tensor:
        """Coordinates `[..., dim]` of an algebra matrix: the inverse of `hat`."""
        checks.poses(self, X, "algebra matrices")
        basis = self.basis(dtype=X.dtype, device=X.device)
        return (X[..., None, :, :] * basis).sum((-2, -1))

    def bracket(self, x: Tensor, y: Tensor) -> Tensor:
        """Lie bracket [x, y] in coordinates, `[..., dim]`."""
        X, Y = self.hat(x), self.hat(y)
        return self.vee(mul(X, Y) - mul(Y, X))

    def adjoint(self, g: Tensor) -> Tensor:
        """Ad_g in coordinates, `[..., dim, dim]`: `vee(g hat(x) g^-1) = adjoint(g) x`."""
        checks.poses(self, g)
        basis = self.basis(dtype=g.dtype, device=g.device)
        moved = mul(mul(g[..., None, :, :], basis), self.inverse(g)[..., None, :, :])
        return self.vee(moved).mT

    def block_sq_norms(self, x: Tensor) -> Tensor:
        """Squared norm of each block of coordinates, `[..., K]`.

        Coordinates of the polar chart of Aff(n), one longer, have one block more.
        """
        sizes = [block.dim for block in self._chart_of(x).blocks]
        return torch.stack([part.square().sum(-1) for part in x.split(sizes, dim=-1)], dim=-1)

    def to_physical(self, x: Tensor) -> Tensor:
        """Orthonormal to physical coordinates: angles in radians, scale as a logarithm."""
        return x * self._physical(x)

    def from_physical(self, x: Tensor) -> Tensor:
        """Physical to orthonormal coordinates, the inverse of `to_physical`."""
        return x / self._physical(x)

    def _physical(self, x: Tensor) -> Tensor:
        units = self._units + [1.0] * (self._chart_of(x).dim - self.dim)
        return torch.tensor(units, dtype=x.dtype, device=x.device)

    @property
    def _units(self) -> list[float]:
        """Physical size of a unit of each coordinate of the algebra."""
        unit = {"rotation": 1 / sqrt(2), "scale": 1 / sqrt(self.n), "shear": 1 / sqrt(2)}
        return [unit.get(block.kind, 1.0) for block in self.blocks for _ in range(block.dim)]

    def _chart_of(self, x: Tensor) -> Chart:
        """A chart with as many coordinates as x has, for functions that are not given the chart."""
        charts = {chart.dim: chart for chart in self._charts.values()}
        checks.coordinates(self, x, tuple(charts))
        return charts[x.shape[-1]]

    def _shape_hint(self, g: Tensor) -> str:
        """A hint for poses of a wrong shape."""
        return ""

    # ---- checks ------------------------------------------------------------------------------

    @abstractmethod
    def project(self, g: Tensor) -> Tensor:
        """Nearest element of the group, for matrices that have drifted off it."""

    def admits(self, g: Tensor) -> Tensor:
        """True where the entries of a pose are finite and not too large, `[...]`.

        Free of branches and of reads of values: the operator, layers, compiled models and GPUs
        treat poses that are not admitted as masked tokens. `check` raises and names the first one.
        """
        checks.poses(self, g)
        return (g.detach().abs() <= LARGEST).all(-1).all(-1)  # False for NaN

    @abstractmethod
    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        """(error `[...]`, tolerance, what is wrong and how to correct it), one per condition."""

    def check(self, g: Tensor, *, name: str = "poses") -> Tensor:
        """Return `g` if every element is on the group, else raise ValueError.

        The message gives the first wrong batch index, the error, and how to correct it. Values are
        read, so this synchronises a GPU: call it at the edge, not in a hot loop.
        """
        return checks.check(self, g, name)

    def contains(self, g: Tensor) -> Tensor:
        """True where `check` finds nothing wrong, `[...]`."""
        return checks.contains(self, g)
