"""What is shown of Aff(n) alone: what the polar chart gains, and how much of a set repeats."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from ...groups import get_group
from ...workflows.tables import number, spread
from ..report.document import Section, Table
from .results import groups_of, means_of, rows_of
from .text import STUDY, shares_of

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
        Section("What the polar chart gains", [charts_table(found), CHARTS, _gained(found), STUDY]),
        Section("What repeats", [repeats_table(found), REPEATS]),
    ]


def _affine(found: dict[str, Any]) -> list[str]:
    return [group for group in groups_of(found) if group.startswith("Aff")]


def gains(found: dict[str, Any], group: str) -> list[float]:
    """How much smaller errors are in the polar chart than in the principal one, %, by seed."""
    own = rows_of(found, group)
    pairs = zip(own["G"], own["G polar"], strict=True)
    return [100 * (1 - polar.over / principal.over) for principal, polar in pairs]


def _gained(found: dict[str, Any]) -> str:
    """A line a group: what came of the charts, beside attention that sees no relations."""
    lines = []
    for group in _affine(found):
        x, means = gains(found, group), means_of(found, group)
        ahead = f"polar is ahead with {sum(gain > 0 for gain in x)} of {len(x)} seeds"
        clear = len(x) > 1 and abs(mean(x)) > stdev(x)
        told = f"{number(abs(mean(x)))}% {'less' if mean(x) > 0 else 'more'} error; {ahead}"
        line = f"- **{get_group(group)}**: " + (told if clear else f"no clear difference; {ahead}")
        if "A told" in means:
            line += f". A told, whose attention sees no relations: {number(means['A told'])}"
        lines.append(f"{line}.")
    return "\n".join(lines)


def charts_table(found: dict[str, Any]) -> Table:
    """Principal against polar, where they differ."""
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
    """How much of what is hidden can be had without a correction."""
    rows = [[str(get_group(g)), *shares_of(found, g).values()] for g in _affine(found)]
    return Table(["", "linear part", "position", "step", "learned from"], rows)
