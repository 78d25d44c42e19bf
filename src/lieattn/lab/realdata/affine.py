"""Sections on Aff(n) only: the gain of the polar chart, and repeated poses."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from ...groups import get_group
from ...workflows.tables import number, spread
from ..report.document import Section, Table
from .results import groups_of, means_of, rows_of
from .text import STUDY, shares_of

CHARTS = (
    "**Pairs used** is the share of pairs of test windows that attention uses: the principal "
    "chart masks pairs without a logarithm, or too close to its cut. **Gain** is by how much the "
    "polar chart reduces the error over that of geodesic interpolation, on the same hidden poses. "
    "It is negative where the error is larger. On SO(n) and SE(n) the two charts are the same, so "
    "G polar is G."
)
REPEATS = (
    "Shares of the hidden poses of the test windows, with seed 0: those with the linear part, or "
    "the position, of a visible pose of the window; and those a step `g_j g_k^-1 g_l` away that "
    "also occurs elsewhere, over as many places. The tolerance is 0.001, in the frame of the "
    "hidden pose. **Learned from**: training windows, which overlap."
)


def affine_sections(found: dict[str, Any]) -> list[Section]:
    """Sections of the report, if affine groups were run."""
    if not _affine(found):
        return []
    return [
        Section("Gain of the polar chart", [charts_table(found), CHARTS, _gained(found), STUDY]),
        Section("Repeated poses", [repeats_table(found), REPEATS]),
    ]


def _affine(found: dict[str, Any]) -> list[str]:
    return [group for group in groups_of(found) if group.startswith("Aff")]


def gains(found: dict[str, Any], group: str) -> list[float]:
    """Reduction of the error by the polar chart, in %, by seed."""
    own = rows_of(found, group)
    pairs = zip(own["G"], own["G polar"], strict=True)
    return [100 * (1 - polar.over / principal.over) for principal, polar in pairs]


def _gained(found: dict[str, Any]) -> str:
    """A line for each group: polar against principal chart, and attention without pairs."""
    lines = []
    for group in _affine(found):
        x, means = gains(found, group), means_of(found, group)
        ahead = f"polar is ahead with {sum(gain > 0 for gain in x)} of {len(x)} seeds"
        clear = len(x) > 1 and abs(mean(x)) > stdev(x)
        change = f"{number(abs(mean(x)))}% {'less' if mean(x) > 0 else 'more'} error"
        line = f"- **{get_group(group)}**: {change if clear else 'no clear difference'}; {ahead}"
        if (other := "A with invariants") in means:
            line += f". {other}, whose attention sees no pairs: {number(means[other])}"
        lines.append(f"{line}.")
    return "\n".join(lines)


def charts_table(found: dict[str, Any]) -> Table:
    """Principal against polar chart, where they differ."""
    rows = []
    for group in _affine(found):
        own, used = rows_of(found, group), found["pairs"][group]
        errors = {name: [x.over for x in own[name]] for name in ("G", "G polar")}
        rows.append(
            [
                str(get_group(group)),
                *(f"{100 * used[chart]:.3g}%" for chart in ("principal", "polar")),
                *(spread(errors[name]) for name in ("G", "G polar")),
                f"{spread(gains(found, group))}%",
            ]
        )
    head = ["", "pairs used, principal", "polar", "error over geodesic, principal", "polar", "gain"]
    return Table(head, rows)


def repeats_table(found: dict[str, Any]) -> Table:
    """Shares of hidden poses that need no correction."""
    rows = [[str(get_group(g)), *shares_of(found, g).values()] for g in _affine(found)]
    return Table(["", "linear part", "position", "step", "learned from"], rows)
