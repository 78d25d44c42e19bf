"""Errors of `lieattn realdata` over those of interpolation, and which method is ahead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from statistics import mean
from typing import Any

from ...geometry.predictors import PREDICTORS
from .plan import GROUPS, MODELS

OURS = ("G", "G polar")
# The published claim compares ours with these. A newly registered rival gets rows in the tables,
# but does not join the claim.
SIMPLE = ("nearest", "geodesic", "alike")
CLAIMED = (*SIMPLE, "A")
BESIDE = ("A with invariants", "C", "IPA")  # reported with the claim


@dataclass(frozen=True)
class Row:
    """A method on one group with one seed.

    Attributes:
        blocks, plain: "mean" and "median" error by block, in the unit of the file and degrees, of
            the method and of interpolation.
        mirrored: share of answers of the wrong handedness.
        valid: lowest validation loss; NaN for predictors.
    """

    blocks: dict[str, dict[str, float]]
    plain: dict[str, dict[str, float]]
    mirrored: float
    valid: float

    @property
    def over(self) -> float:
        """Mean errors over those of interpolation, averaged over blocks."""
        return self.ratio("mean")

    def ratio(self, key: str) -> float:
        """Errors over those of interpolation, averaged over the blocks in which that errs."""
        plain = {name: x[key] for name, x in self.plain.items() if x[key] > 0}
        return mean(self.blocks[name][key] / x for name, x in plain.items()) if plain else 1.0


def rows_of(found: dict[str, Any], group: str) -> dict[str, list[Row]]:
    """Rows of every method on a group, one per seed. Predictors are the same in every run."""
    rows: dict[str, dict[int, Row]] = {}
    for run in found["runs"]:
        if run["group"] == group:
            table = run["result"]["rows"]
            for name, x in table.items():
                own = name == run["settings"]["model"]
                valid = run["valid_loss"] if own else nan
                row = Row(x["blocks"], table["geodesic"]["blocks"], x["mirrored"], valid)
                rows.setdefault(run["model"] if own else name, {})[run["seed"]] = row
    return {name: [rows[name][s] for s in sorted(rows[name])] for name in in_order(rows)}


def in_order(names: Iterable[str]) -> list[str]:
    """Methods in the order of the tables: predictors, models, then what is not known here."""
    given = list(dict.fromkeys(names))
    known = [name for name in (*PREDICTORS, *MODELS) if name in given]
    return known + [name for name in given if name not in known]


def means_of(found: dict[str, Any], group: str) -> dict[str, float]:
    """Errors of every method on a group over those of interpolation, means over seeds."""
    return {name: mean(x.over for x in own) for name, own in rows_of(found, group).items()}


def groups_of(found: dict[str, Any]) -> list[str]:
    """Groups that were run, in the order of the paper."""
    return [group for group in GROUPS if any(run["group"] == group for run in found["runs"])]


@dataclass(frozen=True)
class Verdict:
    """Whether model G is ahead of vector tokens and of simple rivals.

    Attributes:
        ours, best: of G and G polar the one of the smaller validation losses, and its error.
        rival, least: the best of those it is compared with, and its error.
        seeds: with how many seeds ours is ahead of every one of them, on the same hidden poses.
    """

    ours: str
    best: float
    rival: str
    least: float
    seeds: int
    of: int

    @property
    def ahead(self) -> bool:
        return self.best < self.least


def verdict(found: dict[str, Any], group: str) -> Verdict:
    """By mean errors over those of interpolation, means over seeds."""
    rows, means = rows_of(found, group), means_of(found, group)
    ours = min(
        (name for name in OURS if name in rows), key=lambda name: mean(x.valid for x in rows[name])
    )
    rival = min((name for name in CLAIMED if name in rows), key=means.__getitem__)
    won = [
        all(x.over < rows[name][i].over for name in CLAIMED if name in rows)
        for i, x in enumerate(rows[ours])
    ]
    return Verdict(ours, means[ours], rival, means[rival], sum(won), len(won))
