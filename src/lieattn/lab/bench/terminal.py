"""The tables of a run in a terminal of 80 columns."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from .cases import SHORT, short_label
from .results import (
    cell_title,
    ends,
    lacking,
    layer_rows,
    layer_title,
    megabytes,
    milliseconds,
    passes,
    ratio,
    rows,
    skipped,
)


def print_tables(found: dict[str, Any], console: Console) -> None:
    """A table for each group and head width, then what the dashes mean."""
    for title, cells in groupby(found["cells"], cell_title):
        console.print(_table(found, title, list(cells)))
    if found["layer"]["records"]:
        console.print(_layer_table(found))
    below = [*(f"- {line}" for line in skipped(found)), legend(found)]
    for text in ("", *below, ""):
        console.print(text, style="dim", highlight=False, markup=False)


def legend(found: dict[str, Any]) -> str:
    """How to read the tables."""
    text = "Least time of a call, each contestant in turns with SDPA; x: over SDPA's. "
    if "backward" in passes(found):
        text += (
            "backward: forward and backward pass, gradients of all inputs but poses; + poses: of "
            "poses too, over SDPA's backward. "
        )
    if found["layer"]["records"]:
        text += "LieAttention: x over the same layer on the reference backend. "
    if found["memory_method"]:
        text += "memory: what a call takes at its peak, in the first pass and in the last. "
    return (
        text
        + f"{found['settings']['heads']} heads, batch {found['settings']['batch']}, "
        + (f"float32, threads: {found['machine']['threads']}.")
    )


def _table(found: dict[str, Any], title: str, cells: list[dict[str, Any]]) -> Table:
    which = passes(found)
    table = _start(title, "N", "right", which)
    sized = ends(found)
    for name in sized:
        unit = "MB" if len(sized) == 1 else "fwd MB" if name == "forward" else "all MB"
        table.add_column(f"memory\n{unit}", justify="right", no_wrap=True)
    for cell in cells:
        for i, row in enumerate(rows(found, cell)):
            numbers: list[str] = []
            for name in which:
                # `over budget` and `too large` are as wide as a time and its ratio.
                why = lacking(row.missing.get(name))
                time, times = milliseconds(row.seconds.get(name)), ratio(row.ratios.get(name))
                numbers += why.split() if why else (time, times)
            start = [f"{cell['n']}" if i == 0 else "", short_label(row.label)]
            memory = [megabytes(row.size(name)) for name in sized]
            table.add_row(*start, *numbers, *memory)
        table.add_section()
    return table


def _start(title: str, first: str, justify: JustifyMethod, which: list[str]) -> Table:
    """A table without rows: what the first column says, who, a time and a ratio for each pass."""
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    table.add_column(first, justify=justify, no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in which:
        table.add_column(f"{SHORT[name]}\nms", justify="right", no_wrap=True)
        table.add_column("\nx", justify="right", no_wrap=True, style="bold")
    return table


def _layer_table(found: dict[str, Any]) -> Table:
    which = passes(found)
    table = _start(layer_title(found), "", "left", which)
    for row in layer_rows(found):
        numbers: list[str] = []
        for name in which:
            numbers += milliseconds(row.seconds.get(name)), ratio(row.ratios.get(name))
        table.add_row(row.label, row.name, *numbers)
    return table
