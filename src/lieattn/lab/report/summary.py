"""Numbers of the tables: means and spreads over seeds, and ratios of models."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log10
from statistics import mean, stdev
from typing import Any

from ...groups import get_group
from ..paper.protocols import MODELS, PROTOCOLS
from .paper import PAPER, Printed

ORDER = ("SE2", "SO3", "Aff2", "SO2", "SE3", "Aff3")


@dataclass(frozen=True)
class Number:
    """Mean over seeds and, of more than one, the sample standard deviation."""

    mean: float | None
    spread: float | None

    @classmethod
    def of(cls, values: list[float | None]) -> Number:
        """No mean if there is no value, or one is None because a model diverged."""
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return cls(None, None)
        return cls(mean(known), stdev(known) if len(known) > 1 else None)

    def __str__(self) -> str:
        """`(4.9 ± 1.8)e-05`, or `0.998 ± 0.001`."""
        if self.mean is None:
            return "none"
        unit, tail, digits = 1.0, "", 3
        if self.mean != 0 and not 0.01 <= abs(self.mean) < 100:
            exponent = int(f"{self.mean:.1e}".split("e")[1])
            unit, tail, digits = 10.0**exponent, f"e{exponent:+03d}", 1
        elif self.spread and self.spread < 10**-digits:
            digits = min(-int(f"{self.spread:.0e}".split("e")[1]), 6)
        text = f"{self.mean / unit:.{digits}f}"
        if self.spread is not None:
            text += f" ± {self.spread / unit:.{digits}f}"
        return f"({text}){tail}" if tail and self.spread is not None else text + tail

    def short(self, form: str = ".1e") -> str:
        """The mean alone."""
        return "none" if self.mean is None else f"{self.mean:{form}}"


@dataclass(frozen=True)
class Row:
    """One model on one group under one protocol."""

    group: str
    model: str
    result: dict[str, Any]

    @property
    def printed(self) -> Printed | None:
        """The paper's values, if it has any."""
        return PAPER.get((self.group, self.model))

    def paper(self, metric: str, form: str = ".1e") -> str:
        """One of the paper's values as text; blank if it has none."""
        return f"{getattr(self.printed, metric):{form}}" if self.printed else ""

    def values(self, iterate: str, metric: str) -> list[float | None]:
        return [seed[iterate][metric] for seed in self.result["seeds"]]

    def number(self, iterate: str, metric: str) -> Number:
        return Number.of(self.values(iterate, metric))

    def total(self, iterate: str, metric: str) -> int:
        return sum(int(value or 0) for value in self.values(iterate, metric))

    def counts(self, first: str, second: str, between: str) -> str:
        """Two totals over seeds, of the best-validation iterate."""
        return between.join(f"{self.total('best', name):,}" for name in (first, second))

    @property
    def equivariance(self) -> Number:
        """Mean without flips, which are jumps of the arg max by rounding. For vector tokens flips
        count, because a lack of equivariance causes them."""
        return self.number("best", self.equivariance_metric)

    @property
    def equivariance_float32(self) -> Number:
        """Mean without flips, with the geometry in float32 too."""
        seeds = self.result["seeds"]
        return Number.of([seed["best"]["float32"]["equivariance_without_flips"] for seed in seeds])

    @property
    def equivariance_metric(self) -> str:
        return "equivariance" if self.model == "A" else "equivariance_without_flips"


@dataclass(frozen=True)
class Comparison:
    """The models of a group side by side."""

    group: str
    protocol: str
    rows: dict[str, Row]

    @property
    def title(self) -> str:
        return str(get_group(self.group))

    def ratio(self, model: str) -> float | None:
        """Pose error of a model over that of G, best-validation iterate."""
        return _over(self._pose_error(model), self._pose_error("G"))

    def _pose_error(self, model: str) -> float | None:
        return self.rows[model].number("best", "pose_error").mean if model in self.rows else None

    def printed_ratio(self, model: str) -> float | None:
        """The same ratio in the paper."""
        other, G = (PAPER.get((self.group, name)) for name in (model, "G"))
        return other.pose_error / G.pose_error if other and G else None

    @property
    def orders(self) -> float | None:
        """Orders of magnitude between the equivariance errors of A and of G."""
        A, G = (self.rows[m].equivariance.mean if m in self.rows else None for m in "AG")
        return log10(A / G) if A and G else None

    @property
    def printed_orders(self) -> float | None:
        """The same orders in the paper."""
        A, G = (PAPER.get((self.group, name)) for name in "AG")
        return log10(A.equivariance / G.equivariance) if A and G else None


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def times(ratio: float | None) -> str:
    """A ratio in few digits: `1.6`, `23`, `3,070`; blank for None."""
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.3g}'):,.0f}"


def has_positions(group: str) -> bool:
    """Whether poses of the group have positions."""
    return get_group(group).matrix_size > get_group(group).n


def comparisons(found: dict[str, Any]) -> dict[str, list[Comparison]]:
    """The groups that have results, by protocol; the paper's groups come first."""
    results = found["configurations"]
    by_protocol: dict[str, list[Comparison]] = {}
    for protocol, group in product(PROTOCOLS, ORDER):
        names = {model: f"{protocol}/{group}/{model}" for model in MODELS}
        rows = {m: Row(group, m, results[name]) for m, name in names.items() if name in results}
        if rows:
            by_protocol.setdefault(protocol, []).append(Comparison(group, protocol, rows))
    return by_protocol
