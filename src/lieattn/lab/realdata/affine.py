"""What is shown of Aff(n) alone: what the polar chart gains, and how much of a set repeats."""

from __future__ import annotations

from typing import Any

from ...groups import get_group
from ..infill.tables import spread
from ..report.document import Section, Table
from .results import groups_of, rows_of
from .text import GAINED, shares_of

CHARTS = (
    "**Pairs used** is the share of the pairs of test windows that attention sees: the principal "
    "chart masks pairs without a logarithm, or too close to its cut. **Gain** is how much smaller "
    "the error of the polar chart is, over that of geodesic interpolation, on the same hidden "
    "poses; negative where it is larger. On SO(n) and SE(n) both charts are one, so there is no G "
    "polar to train: it is G."
)


REPEATS = (
    "Shares of the hidden poses of the test windows, with seed 0: whose linear part, or position, "
    "is that of a visible pose of the window; which are a step `g_j g_k^-1 g_l` that is seen "
    "elsewhere, over as many places. Up to 0.001, in the frame of the hidden pose. **Learned "
    "from**: training windows, which overlap."
)


def affine_sections(found: dict[str, Any]) -> list[Section]:
    """Sections of the report, if affine frames were run."""
    if not _affine(found):
        return []
    return [
        Section("What the polar chart gains", [charts_table(found), CHARTS, GAINED]),
        Section("What repeats", [repeats_table(found), REPEATS]),
    ]


def _affine(found: dict[str, Any]) -> list[str]:
    return [group for group in groups_of(found) if group.startswith("Aff")]


def charts_table(found: dict[str, Any]) -> Table:
    """Principal against polar, where they differ."""
    rows = []
    for group in _affine(found):
        own, used = rows_of(found, group), found["pairs"][group]
        errors = {name: [x.over for x in own[name]] for name in ("G", "G polar")}
        gains = [100 * (1 - b / a) for a, b in zip(errors["G"], errors["G polar"], strict=True)]
        rows.append(
            [
                str(get_group(group)),
                *(f"{100 * used[chart]:.3g}%" for chart in ("principal", "polar")),
                *(spread(errors[name]) for name in ("G", "G polar")),
                f"{spread(gains)}%",
            ]
        )
    head = ["", "pairs used, principal", "polar", "error over geodesic, principal", "polar", "gain"]
    return Table(head, rows)


def repeats_table(found: dict[str, Any]) -> Table:
    """How much of what is hidden can be had without a correction."""
    rows = [[str(get_group(g)), *shares_of(found, g).values()] for g in _affine(found)]
    return Table(["", "linear part", "position", "step", "learned from"], rows)
