"""Results in numbers to be printed: means and spreads over seeds, and ratios of models."""

from __future__ import annotations

from dataclasses import dataclass
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
        """A model that diverged, or a mean of nothing, has no number: then there is no mean."""
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
    protocol: str
    result: dict[str, Any]

    @property
    def printed(self) -> Printed | None:
        return PAPER.get((self.group, self.model))

    def values(self, iterate: str, metric: str) -> list[float | None]:
        return [seed[iterate][metric] for seed in self.result["seeds"]]

    def number(self, iterate: str, metric: str) -> Number:
        return Number.of(self.values(iterate, metric))

    def total(self, iterate: str, metric: str) -> int:
        return sum(int(value or 0) for value in self.values(iterate, metric))

    @property
    def parameters(self) -> dict[str, int]:
        return self.result["parameters"]

    @property
    def equivariance(self) -> Number:
        """Mean without flips, which are jumps of the arg max. Vector tokens have all of it: there
        the choice changes for want of equivariance, not by rounding."""
        return self.number("best", self.equivariance_metric)

    @property
    def equivariance_float32(self) -> Number:
        """The same, without flips, with the geometry in float32 too."""
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
        """Pose error of a model over G's, best-validation iterate."""
        if "G" not in self.rows or model not in self.rows:
            return None
        below = self.rows["G"].number("best", "pose_error").mean
        above = self.rows[model].number("best", "pose_error").mean
        return above / below if above is not None and below else None

    def printed_ratio(self, model: str) -> float | None:
        G, other = PAPER.get((self.group, "G")), PAPER.get((self.group, model))
        return other.pose_error / G.pose_error if G and other else None

    @property
    def orders(self) -> float | None:
        """Orders of magnitude between the equivariance errors of A and of G."""
        if "G" not in self.rows or "A" not in self.rows:
            return None
        return _orders(self.rows["A"].equivariance.mean, self.rows["G"].equivariance.mean)

    @property
    def printed_orders(self) -> float | None:
        G, A = PAPER.get((self.group, "G")), PAPER.get((self.group, "A"))
        return _orders(A.equivariance, G.equivariance) if G and A else None


def _orders(above: float | None, below: float | None) -> float | None:
    return log10(above / below) if above and below else None


def times(ratio: float | None) -> str:
    """A ratio in few digits: `1.6`, `23`, `3,070`; nothing for none."""
    if ratio is None:
        return ""
    return f"{ratio:.1f}" if ratio < 10 else f"{float(f'{ratio:.3g}'):,.0f}"


def has_positions(group: str) -> bool:
    """Whether poses of the group have positions."""
    return get_group(group).matrix_size > get_group(group).n


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
