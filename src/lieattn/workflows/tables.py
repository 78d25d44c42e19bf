"""Errors on hidden tokens as a table of a terminal."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..geometry.predictors import PREDICTORS
from ..groups import get_group
from .errors import heading
from .settings import models


def print_errors(result: dict[str, Any], console: Console) -> None:
    """Mean and median error of each block, best in bold, and what the bounds are worth."""
    group = get_group(result["group"])
    rows = result["rows"]
    tokens = next(iter(rows.values()))["tokens"]
    title = f"\n{group}: {tokens:,} hidden poses of {result['windows']:,} test windows"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    for block in group.blocks:
        table.add_column(heading(block), justify="right", no_wrap=True)
    mirrored = any(row["mirrored"] for row in rows.values())
    if mirrored:
        table.add_column("mirrored", justify="right", no_wrap=True)
    for method, row in rows.items():
        cells = [_cell(rows, row, block.name) for block in group.blocks]
        if mirrored:
            cells.append(Text(f"{100 * row['mirrored']:.1f}%"))
        table.add_row(method, *cells)
    console.print(table)
    console.print(_legend(result), style="dim", highlight=False)


def _cell(rows: dict[str, Any], row: dict[str, Any], block: str) -> Text:
    own = row["blocks"][block]
    least = min(other["blocks"][block]["mean"] for other in rows.values())
    style = "bold" if own["mean"] <= least else ""
    text = Text(number(own["mean"]), style)
    return text.append(f"  {number(own['median'])}", "dim")


def _legend(result: dict[str, Any]) -> str:
    methods = [f"{name}: {x.title}" for name, x in PREDICTORS.items() if name in result["rows"]]
    methods += [f"{name}: {models()[name.split()[0]]}" for name in result["coverage"]]
    lines = ["Mean error, and median. " + "; ".join(methods) + "."]
    lines += [_verdict(result["rows"], name) for name in result["coverage"]]
    for name, levels in result["coverage"].items():
        shares = " and ".join(f"{100 * x:.0f}%" for x in levels["0.9"])
        lines.append(
            f"Within the 90% bounds of {name}: {shares} of the answers, block by block."
            if shares
            else f"{name} has no 90% bounds: the validation part has too few poses."
        )
    return "\n".join(lines)


def _verdict(rows: dict[str, Any], name: str) -> str:
    """A model's mean errors beside those of interpolation, in words."""
    own, plain = (
        {block: x["mean"] for block, x in rows[method]["blocks"].items()}
        for method in (name, "geodesic")
    )
    percent = {b: round(100 * (own[b] / plain[b] - 1)) for b in own if plain[b] > 0}
    told = ", ".join(f"{block} {change(x)}" for block, x in percent.items())
    text = f"Mean errors of {name} beside geodesic: {told or 'there are none'}."
    if not any(x < 0 for x in percent.values()):
        text += (
            " It is no better than interpolation here: more poses or --steps may help, and to "
            "interpolate costs nothing."
        )
    return text


def change(percent: int) -> str:
    """A change as people say it.

    >>> change(-29), change(0), change(3)
    ('29% smaller', 'the same', '3% larger')
    """
    if not percent:
        return "the same"
    return f"{abs(percent)}% {'smaller' if percent < 0 else 'larger'}"


def number(x: float) -> str:
    """Three digits, without an exponent where people would write none.

    >>> number(12.345), number(0.01234), number(0.00001234), number(0.0), number(12345.0)
    ('12.3', '0.0123', '1.2e-05', '0', '12345')
    """
    if x == 0:
        return "0"
    if abs(x) >= 100:
        return f"{x:.0f}"
    return f"{x:.3g}" if abs(x) >= 1e-4 else f"{x:.1e}"


def spread(values: list[float]) -> str:
    """Mean and sample deviation.

    >>> spread([1.0, 2.0, 3.0]), spread([1.0])
    ('2 ± 1', '1')
    """
    middle = number(mean(values))
    return f"{middle} ± {float(f'{stdev(values):.2g}'):g}" if len(values) > 1 else middle
