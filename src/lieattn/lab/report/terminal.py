"""The tables of a report in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from ...workflows.display import table
from ..paper.protocols import PROTOCOLS
from .content import Columns, cells, orders
from .summary import Comparison, comparisons, times

LEGEND = (
    "\nPose error: best-validation iterate, mean ± deviation over seeds, and the last iterate. "
    "Flank: share of sets whose gap was found. Equiv.: equivariance error, without flips of the "
    "arg max (for A with flips). The paper does not give the length of its steps: where there are "
    "translations, compare ratios rather than errors."
)


def print_tables(found: dict[str, Any], console: Console) -> None:
    """Every group of every protocol, with the paper's values."""
    for protocol, groups in comparisons(found).items():
        console.rule(f"protocol {protocol}")
        console.print(PROTOCOLS[protocol].summary, style="dim", highlight=False)
        for comparison in groups:
            console.print(_table(comparison))
            console.print(_ratios(comparison), highlight=False)
    console.print(LEGEND, style="dim", highlight=False)


COLUMNS: Columns = (
    ("", lambda row: row.model),
    ("pose error", lambda row: str(row.number("best", "pose_error"))),
    ("last", lambda row: row.number("last", "pose_error").short()),
    ("paper", lambda row: row.paper("pose_error")),
    ("flank", lambda row: row.number("best", "flanking").short(".3f")),
    ("equiv.", lambda row: row.equivariance.short()),
    ("paper", lambda row: row.paper("equivariance")),
    ("flips", lambda row: str(row.total("best", "flips"))),
)


def _table(comparison: Comparison) -> Table:
    epochs = next(iter(comparison.rows.values())).result["settings"]["epochs"]
    content = cells(comparison, COLUMNS)
    made = table(f"\n{comparison.title}, {epochs} epochs", *content.header)
    for row in content.rows:
        made.add_row(*row)
    return made


def _ratios(x: Comparison) -> str:
    parts = []
    for model in ("A", "C"):
        if ratio := times(x.ratio(model)):
            printed = times(x.printed_ratio(model))
            parts.append(f"{model}/G {ratio}" + (f" (paper {printed})" if printed else ""))
    if gained := orders(x, ".0f").replace("(", "(paper "):
        parts.append(f"equivariance A over G, orders of magnitude: {gained}")
    return " " + ", ".join(parts)
