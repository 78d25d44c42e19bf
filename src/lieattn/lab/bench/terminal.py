"""The tables of a run in a terminal of 80 columns."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .contestants import SDPA
from .results import Row, cell_title, megabytes, milliseconds, passes, ratio, rows, skipped

HEADERS = {"forward": "forward\nms", "backward": "backward\nms", "poses": "+ poses\nms"}


def print_tables(found: dict[str, Any], console: Console) -> None:
    """A table for each group and head width, then what the dashes mean."""
    for title, cells in groupby(found["cells"], cell_title):
        console.print(_table(found, title, list(cells)))
    below = [*(f"- {line}" for line in skipped(found)), legend(found)]
    for text in ("", *below, ""):
        console.print(text, style="dim", highlight=False, markup=False)


def legend(found: dict[str, Any]) -> str:
    """How to read the tables."""
    text = "Least time of a call, all contestants taking turns; x: over SDPA's in the same turns. "
    if "backward" in passes(found):
        text += (
            "backward: forward and backward pass, gradients of all inputs but poses; + poses: of "
            "poses too, over SDPA's backward. "
        )
    if found["memory_method"]:
        text += "MB: memory that a call takes at its peak, in the first and the last pass. "
    return (
        text
        + f"{found['settings']['heads']} heads, batch {found['settings']['batch']}, "
        + (f"float32, threads: {found['machine']['threads']}.")
    )


def _table(found: dict[str, Any], title: str, cells: list[dict[str, Any]]) -> Table:
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    table.add_column("N", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    which = passes(found)
    for name in which:
        table.add_column(HEADERS[name], justify="right", no_wrap=True)
        table.add_column("\nx", justify="right", no_wrap=True, style="bold")
    ends = list(dict.fromkeys((which[0], which[-1]))) if found["memory_method"] else []
    for name in ends:
        table.add_column(HEADERS[name].replace("ms", "MB"), justify="right", no_wrap=True)
    for cell in cells:
        for i, row in enumerate(rows(found, cell)):
            numbers = []
            for name in which:
                numbers.append(milliseconds(row.seconds.get(name)))
                numbers.append(ratio(row.ratios.get(name)))
            memory = [megabytes(_size(row, name)) for name in ends]
            table.add_row(f"{cell['n']}" if i == 0 else "", row.label, *numbers, *memory)
        table.add_section()
    return table


def _size(row: Row, which: str) -> int | None:
    if which == "poses" and row.name == SDPA:
        which = "backward"  # plain attention has no poses: it is the same pass
    return row.memory.get(which)
