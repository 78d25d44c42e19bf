"""The tables of a report in a terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..paper.protocols import PROTOCOLS
from .summary import Comparison, comparisons, times


def print_tables(found: dict[str, Any], console: Console) -> None:
    """Every group of every protocol, the paper's figures beside ours."""
    for protocol, groups in comparisons(found).items():
        console.rule(f"protocol {protocol}")
        console.print(PROTOCOLS[protocol].summary, style="dim", highlight=False)
        for comparison in groups:
            console.print(_table(comparison))
            console.print(_ratios(comparison), highlight=False)
    console.print(
        "\nPose error: best-validation iterate, mean ± deviation over seeds; the last iterate "
        "beside it. Flank: share of sets whose gap was found. Equiv.: equivariance error, without "
        "flips of the arg max (A: with). The paper does not say how long its steps are: where "
        "there are translations, compare ratios rather than errors.",
        style="dim",
        highlight=False,
    )


def _table(comparison: Comparison) -> Table:
    epochs = next(iter(comparison.rows.values())).result["settings"]["epochs"]
    title = f"\n{comparison.title}, {epochs} epochs"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for name in ("pose error", "last", "paper", "flank", "equiv.", "paper", "flips"):
        table.add_column(name, justify="right", no_wrap=True)
    for model, row in comparison.rows.items():
        printed = row.printed
        table.add_row(
            model,
            str(row.number("best", "pose_error")),
            row.number("last", "pose_error").short(),
            f"{printed.pose_error:.1e}" if printed else "-",
            row.number("best", "flanking").short(".3f"),
            row.equivariance.short(),
            f"{printed.equivariance:.1e}" if printed else "-",
            str(row.total("best", "flips")),
        )
    return table


def _ratios(comparison: Comparison) -> str:
    parts = []
    for model in ("A", "C"):
        ratio, printed = comparison.ratio(model), comparison.printed_ratio(model)
        if ratio is not None:
            beside = f" (paper {times(printed)})" if printed else ""
            parts.append(f"{model}/G {times(ratio)}{beside}")
    if comparison.orders is not None:
        printed = comparison.printed_orders
        beside = f" (paper {printed:.0f})" if printed else ""
        parts.append(f"equivariance A over G {comparison.orders:.0f} orders{beside}")
    return " " + ", ".join(parts)
