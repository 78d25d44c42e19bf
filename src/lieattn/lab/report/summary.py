"""Results in numbers to be printed: means and spreads over seeds, and ratios of models."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from statistics import mean, stdev
from typing import Any

from ...groups import get_group
from ..protocols import MODELS, PROTOCOLS
from .paper import PAPER, Printed

ORDER = ("SE2", "SO3", "Aff2", "SO2", "SE3", "Aff3")


@dataclass(frozen=True)
class Number:
    """Mean and sample standard deviation over seeds."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: list[float]) -> Number:
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        """`(4.9 ± 1.8)e-05`, or `0.998 ± 0.001`."""
        if self.mean == 0 or 0.01 <= abs(self.mean) < 100:
            return f"{self.mean:.3f} ± {self.spread:.3f}"
        exponent = int(f"{self.mean:e}".split("e")[1])
        unit = 10.0**exponent
        return f"({self.mean / unit:.1f} ± {self.spread / unit:.1f})e{exponent:+03d}"


@dataclass(frozen=True)
class Row:
    """One model on one group under one protocol."""

    group: str
    model: str
    protocol: str
    result: dict[str, Any]

    @property
    def printed(self) -> Printed | None:
        return PAPER.get((self.group, self.model))

    def values(self, iterate: str, metric: str) -> list[float]:
        return [seed[iterate][metric] for seed in self.result["seeds"]]

    def number(self, iterate: str, metric: str) -> Number:
        return Number.of(self.values(iterate, metric))

    def total(self, iterate: str, metric: str) -> int:
        return int(sum(self.values(iterate, metric)))

    @property
    def parameters(self) -> dict[str, int]:
        return self.result["parameters"]

    @property
    def equivariance(self) -> float:
        """Mean without flips, which are jumps of the arg max. Vector tokens have all of it: there
        the choice changes for want of equivariance, not by rounding."""
        metric = "equivariance" if self.model == "A" else "equivariance_without_flips"
        return self.number("best", metric).mean


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
        """Pose error of a model over G's, best-validation iterate."""
        if "G" not in self.rows or model not in self.rows:
            return None
        below = self.rows["G"].number("best", "pose_error").mean
        return self.rows[model].number("best", "pose_error").mean / below if below else None

    def printed_ratio(self, model: str) -> float | None:
        G, other = PAPER.get((self.group, "G")), PAPER.get((self.group, model))
        return other.pose_error / G.pose_error if G and other else None

    @property
    def orders(self) -> float | None:
        """Orders of magnitude between the equivariance errors of A and of G."""
        if "G" not in self.rows or "A" not in self.rows:
            return None
        return _orders(self.rows["A"].equivariance, self.rows["G"].equivariance)

    @property
    def printed_orders(self) -> float | None:
        G, A = PAPER.get((self.group, "G")), PAPER.get((self.group, "A"))
        return _orders(A.equivariance, G.equivariance) if G and A else None


def _orders(above: float, below: float) -> float | None:
    return log10(above / below) if above > 0 and below > 0 else None


def times(ratio: float | None) -> str:
    """A ratio in few digits: `1.6`, `23`, `3,070`; nothing for none."""
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.3g}'):,.0f}"


def comparisons(found: dict[str, Any]) -> dict[str, list[Comparison]]:
    """By protocol, the groups that have results: the paper's first."""
    results = found["configurations"]
    by_protocol = {}
    for protocol in PROTOCOLS:
        listed = []
        for group in ORDER:
            rows = {
                model: Row(group, model, protocol, results[name])
                for model in MODELS
                if (name := f"{protocol}/{group}/{model}") in results
            }
            if rows:
                listed.append(Comparison(group, protocol, rows))
        if listed:
            by_protocol[protocol] = listed
    return by_protocol
