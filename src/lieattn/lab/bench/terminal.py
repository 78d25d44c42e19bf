"""The tables of a run in a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from ..report.document import Section
from ..report.document import Table as Cells
from .cases import PASSES, SHORT
from .measuring import OVER_BUDGET, TOO_LARGE
from .page import document
from .results import passes, skipped

LEGEND = (
    "Least time of a call, each contestant in turns with SDPA; x: over SDPA's. memory: what a call "
    "takes at its peak, in the first pass and in the last. "
)
BACKWARD = (
    "backward: forward and backward pass, gradients of all inputs but poses; + poses: of "
    "poses too, over SDPA's backward. "
)


def print_tables(found: dict[str, Any], console: Console) -> None:
    """The tables of the page, then what their dashes and columns mean."""
    for section in (part for part in document(found).parts if isinstance(part, Section)):
        for table in (part for part in section.parts if isinstance(part, Cells)):
            console.print(_table(section.title, table))
    legend = LEGEND + (BACKWARD if "backward" in passes(found) else "")
    legend += f"{found['settings']['heads']} heads, batch {found['settings']['batch']}, float32, "
    legend += f"threads: {found['machine']['threads']}."
    for text in ("", *(f"- {line}" for line in skipped(found)), legend, ""):
        console.print(text, style="dim", highlight=False, markup=False)


def _table(title: str, cells: Cells) -> Table:
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
    )
    for name in cells.header:
        start, style = name in ("", "backend"), "bold" if name.startswith("over") else None
        justify: JustifyMethod = "left" if start else "right"
        table.add_column(_narrow(name), justify=justify, style=style, no_wrap=True)
    above = ""
    for row in cells.rows:
        if row[0] != above:
            table.add_section()
        # These reasons are as wide as a time and its ratio.
        words = "|".join(row)
        for reason in (OVER_BUDGET, TOO_LARGE):
            words = words.replace(f"|{reason}|-", f"|{reason.replace(' ', '|')}")
        first, label, *numbers = words.split("|")
        table.add_row(first if first != above else "", label.removeprefix("lieattn "), *numbers)
        above = first
    return table


def _narrow(header: str) -> str:
    """Short names of passes, above their units."""
    what, _, unit = header.partition(", ")
    if unit == "MB":
        return f"memory\n{'fwd' if what == 'forward' else 'all'} MB"
    short = {PASSES[which]: SHORT[which] for which in PASSES}
    return f"{short[what]}\n{unit}" if unit else "\nx" if what.startswith("over") else what
