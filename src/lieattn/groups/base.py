"""What a token is: the `Group` interface, algebra blocks, and the registry of groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from math import sqrt

import torch
from torch import Generator, Tensor

from .._core.small import mul, same_dtype
from .._core.tensors import dense
from .._core.text import unknown
from . import checks
from ._calculus import Calculus

CHARTS = ("principal", "polar")
# Of the entries of a pose: products of poses, and squares of distances, stay within float32.
LARGEST = 2e18


KINDS = ("translation", "rotation", "scale", "shear", "parity", "other")


@dataclass(frozen=True)
class Block:
    """One O(n)-irreducible piece of a Lie algebra.

    Attributes:
        name: for people, and unlike that of the group's other blocks.
        dim: the number of its coordinates.
        kind: for code, one of `KINDS`. Translations have a unit of length, rotations are angles.
            Where none is given, the name without digits at its end tells it, and a name that is
            none of them is "other".

    >>> Block("translation2", 3)
    Block(name='translation2', dim=3, kind='translation')
    """

    name: str
    dim: int
    kind: str = ""

    def __post_init__(self) -> None:
        known = self.name.rstrip("0123456789")
        kind = self.kind or (known if known in KINDS else "other")
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r} of a block; known are {', '.join(KINDS)}.")
        object.__setattr__(self, "kind", kind)


PARITY = Block("parity", 1)


class Group(Calculus, ABC):
    r"""A matrix Lie group. Stateless: poses are plain tensors `[..., m, m]`.

    Algebra coordinates `[..., dim]` are taken in a Frobenius-orthonormal basis ordered by block
    (translation, rotation, scale, shear), Section 2.2 of the paper: a rotation coordinate is
    $\sqrt 2$ times the angle. `to_physical` and `from_physical` convert at the edge.

    A subclass sets the four attributes below and implements `_generators`, `_exp`, `_log`,
    `_log_relative`, `_margin`, `inverse`, `random`, `project` and `_defect`; everything else
    follows.
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
        return get_group, (self.name,)

    @abstractmethod
    def _generators(self) -> Tensor:
        """Orthonormal basis `[dim, m, m]` in float64, ordered by block."""

    @cached_property
    def _generators64(self) -> Tensor:
        return self._generators()

    def basis(self, *, dtype: torch.dtype | None = None, device: _Device = None) -> Tensor:
        """Frobenius-orthonormal basis of the algebra, `[dim, m, m]`."""
        return self._generators64.to(dtype=dtype or torch.get_default_dtype(), device=device)

    def chart_blocks(self, chart: str = "principal") -> tuple[Block, ...]:
        """Blocks of the coordinates that `log(g, chart)` returns."""
        self._require_chart(chart)
        return self.blocks

    def chart_margin(self, chart: str = "principal") -> float:
        """How far from the cut, in radians, layers and models take pairs to be safe.

        At a half turn the sign of the coordinates hangs on rounding, which this is far above. What
        becomes of pairs that are closer, `relation` tells.
        """
        self._require_chart(chart)
        return 0.01

    def is_global(self, chart: str) -> bool:
        """Whether pairs have coordinates in the chart however close to its cut they are.

        So it is with the polar chart of Aff(n), whose cut a margin moves (see `relation`).
        """
        self._require_chart(chart)
        return False

    def chart_dim(self, chart: str = "principal") -> int:
        """Number of coordinates that `log(g, chart)` returns."""
        return sum(block.dim for block in self.chart_blocks(chart))

    def _require_chart(self, chart: str) -> None:
        if chart not in self.charts:
            raise ValueError(f"unknown chart {chart!r}; {self} knows {', '.join(self.charts)}.")

    # ---- group operations --------------------------------------------------------------------

    def identity(
        self, *batch: int, dtype: torch.dtype | None = None, device: _Device = None
    ) -> Tensor:
        """Identity elements, `[*batch, m, m]`."""
        m = self.matrix_size
        return torch.eye(m, dtype=dtype, device=device).expand(*batch, m, m).clone()

    @abstractmethod
    def random(
        self,
        *batch: int,
        generator: Generator | None = None,
        dtype: torch.dtype | None = None,
        device: _Device = None,
    ) -> Tensor:
        """Random elements `[*batch, m, m]`, Haar-distributed on the compact part."""

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
        """Exponential of coordinates `[..., dim]`, `[..., m, m]`.

        `chart="polar"` is the inverse of `log(g, chart="polar")` instead (see `Aff2`).
        """
        self._require_chart(chart)
        return self._exp(checks.coordinates(self, x))

    def log(self, g: Tensor, chart: str = "principal") -> Tensor:
        """Coordinates of the logarithm, `[..., dim]`; NaN where `g` has no principal logarithm.

        At an exact half turn of SO(n), SE(n) and Sim(n) one of the two valid values comes back.
        """
        self._require_chart(chart)
        w, valid = self._log(checks.poses(self, g), chart)
        return torch.where(valid[..., None], w, torch.nan)

    def log_relative(self, a: Tensor, b: Tensor, chart: str = "principal") -> Tensor:
        """`log(a^-1 b)`, exact to the last bit also where `a` and `b` nearly coincide."""
        w, valid = self.relation(a, b, chart)
        return torch.where(valid[..., None], w, torch.nan)

    def relation(
        self, a: Tensor, b: Tensor, chart: str = "principal", margin: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """`log(a^-1 b)` and where it exists; zero, with zero gradient, where it does not.

        With a margin, in radians, it does not exist so close to the cut either. In a chart that is
        global (`is_global`) it does: of the two values that agree at a half turn the one that a
        fixed direction tells comes back, so that neither hangs on rounding.
        """
        self._require_chart(chart)
        checks.poses(self, a, "left poses")
        checks.poses(self, b, "right poses")
        w, valid = self._log_with_margin(a, b, chart, margin)
        return torch.where(valid[..., None], w, 0), valid

    def _log_with_margin(
        self, a: Tensor, b: Tensor, chart: str, margin: float
    ) -> tuple[Tensor, Tensor]:
        """`_log_relative`, valid where it is farther from the cut than a margin."""
        w, valid = self._log_relative(a, b, chart)
        if margin:
            clearance = self._clearance(a.detach(), b.detach(), w.detach(), chart)
            valid = valid & (clearance > margin)
        return w, valid

    def _clearance(self, a: Tensor, b: Tensor, w: Tensor, chart: str) -> Tensor:
        """The margin of `a^-1 b`, whose coordinates are w: cheaper where w tells it."""
        return self._margin(self.relative(a, b), chart)

    @abstractmethod
    def _exp(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _log(self, g: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of log(g) in a chart.

        Where a pose has no logarithm the coordinates are finite, arbitrary, and have finite
        gradients.
        """

    @abstractmethod
    def _log_relative(self, a: Tensor, b: Tensor, chart: str) -> tuple[Tensor, Tensor]:
        """Coordinates and validity of log(a^-1 b), formed from b - a where that cancels."""

    def in_chart(self, g: Tensor, margin: float = 0.0, chart: str = "principal") -> Tensor:
        """True where every eigenvalue of `g` keeps its argument below pi - margin, `[...]`.

        The logarithm is unique and smooth there. An exact half turn is not in the chart. In the
        polar chart of Aff(n) the argument is that of the rotation factor.
        """
        self._require_chart(chart)
        return self._margin(checks.poses(self, g), chart) > margin

    @abstractmethod
    def _margin(self, g: Tensor, chart: str) -> Tensor:
        """Angle in radians by which the eigenvalues stay clear of the negative axis, `[...]`."""

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
        sizes = [block.dim for block in self._blocks_of(x)]
        return torch.stack([part.square().sum(-1) for part in x.split(sizes, dim=-1)], dim=-1)

    def to_physical(self, x: Tensor) -> Tensor:
        """Orthonormal to physical coordinates: angles in radians, scale as a logarithm."""
        return x * self._physical(x)

    def from_physical(self, x: Tensor) -> Tensor:
        """Physical to orthonormal coordinates, the inverse of `to_physical`."""
        return x / self._physical(x)

    def _physical(self, x: Tensor) -> Tensor:
        factor = {"rotation": 1 / sqrt(2), "scale": 1 / sqrt(self.n), "shear": 1 / sqrt(2)}
        factors = [factor.get(b.kind, 1.0) for b in self._blocks_of(x) for _ in range(b.dim)]
        return torch.tensor(factors, dtype=x.dtype, device=x.device)

    def _blocks_of(self, x: Tensor) -> tuple[Block, ...]:
        if dense(x, f"{self} coordinates").shape[-1:] == (self.dim,):
            return self.blocks
        polar = self.chart_blocks("polar")
        if x.shape[-1:] == (sum(b.dim for b in polar),):
            return polar
        raise ValueError(
            f"{self} coordinates must have shape [..., {self.dim}], got {list(x.shape)}."
        )

    def _shape_hint(self, g: Tensor) -> str:
        """What to say to someone who passed poses of another shape."""
        return ""

    # ---- checks ------------------------------------------------------------------------------

    @abstractmethod
    def project(self, g: Tensor) -> Tensor:
        """Nearest element of the group, for matrices that have drifted off it."""

    def admits(self, g: Tensor) -> Tensor:
        """Where geometry is finite, `[...]`: the entries of a pose are, and are not too large.

        Branch-free, for what must not wait for values: the operator, layers, compiled models and
        GPUs treat poses that are not admitted as masked tokens. `check` refuses them by name.
        """
        checks.poses(self, g)
        return (g.detach().abs() <= LARGEST).all(-1).all(-1)  # False for NaN

    def resolution(self, chart: str, dtype: torch.dtype) -> float:
        """Angle to the cut below which rounding decides whether a pair is on the chart.

        The operator leaves such pairs out, so that all of its backends decide alike.
        """
        return 0.0

    @abstractmethod
    def _defect(self, g: Tensor) -> list[tuple[Tensor, float, str]]:
        """(how far off `[...]`, tolerance, what is wrong and what mends it), one per condition."""

    def check(self, g: Tensor, *, name: str = "poses") -> Tensor:
        """Return `g` if every element is on the group, else raise ValueError.

        The message names the first offending batch index, by how much it misses and what mends
        it. Values are read, so this synchronises a GPU: call it at the edge, not in a hot loop.
        """
        return checks.check(self, g, name)

    def contains(self, g: Tensor) -> Tensor:
        """True where `check` finds nothing wrong, `[...]`."""
        return checks.contains(self, g)


_Device = torch.device | str | None
_REGISTRY: dict[str, Group] = {}


def register(group: Group) -> Group:
    """Make a group known by name to `get_group`, `groups` and the shared tests.

    Raises ValueError if another group has the name; "se(3)" and "SE3" are one name.
    """
    taken = _known(group.name)
    if taken is not None and taken is not group:
        raise ValueError(
            f"the name {group.name!r} is taken by {taken!r}, which checkpoints and files refer to. "
            "Give your group another one, such as matrix_group('MySE3', basis)."
        )
    group._prepare()
    _REGISTRY[group.name] = group
    return group


def rotation_clearance(group: Group, w: Tensor) -> Tensor:
    """pi minus the largest angle that rotation coordinates of w are, `[...]`."""
    blocks = group._blocks_of(w)
    parts = zip(blocks, w.split([block.dim for block in blocks], dim=-1), strict=True)
    squares = [part.square().sum(-1) for block, part in parts if block.kind == "rotation"]
    if not squares:
        return torch.full_like(w[..., 0], torch.pi)
    return torch.pi - reduce(torch.maximum, squares).sqrt() / sqrt(2)


def get_group(name: str | Group) -> Group:
    """Group of the given name, such as "SE3", "SE(3)" or "SE3 x SO2"; a group is itself."""
    if isinstance(name, Group):
        return name
    group = _known(str(name)) or _product_of(str(name))
    if group is None:
        raise ValueError(unknown("group", name, _REGISTRY))
    return group


def _product_of(name: str) -> Group | None:
    """The product of a name such as "SE3 x SO2", all of whose factors are registered."""
    factors = [_known(part) for part in name.split(" x ")]
    if len(factors) < 2 or None in factors:
        return None
    from .products import product  # which derives from Group

    return product(*(factor for factor in factors if factor is not None))


def _known(name: str) -> Group | None:
    """The registered group of a name, whose case and brackets do not count."""
    return next((x for known, x in _REGISTRY.items() if _key(known) == _key(name)), None)


def _key(name: str) -> str:
    return name.replace("(", "").replace(")", "").lower()


def available_groups() -> dict[str, Group]:
    """All registered groups, name -> Group."""
    return dict(_REGISTRY)
