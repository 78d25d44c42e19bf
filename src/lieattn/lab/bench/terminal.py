"""The tables of a run in a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from ...workflows.display import table
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
        for cells in (part for part in section.parts if isinstance(part, Cells)):
            console.print(_table(section.title, cells))
    legend = LEGEND + (BACKWARD if "backward" in passes(found) else "")
    legend += f"{found['settings']['heads']} heads, batch {found['settings']['batch']}, float32, "
    legend += f"threads: {found['machine']['threads']}."
    for text in ("", *(f"- {line}" for line in skipped(found)), legend, ""):
        console.print(text, style="dim", highlight=False, markup=False)


def _table(title: str, cells: Cells) -> Table:
    made = table(f"\n{title}", *map(_narrow, cells.header))
    made.padding, made.show_edge, made.title_style = 0, False, "bold"
    for column, name in zip(made.columns, cells.header, strict=True):
        column.justify = "left" if name in ("", "backend") else "right"
        column.style = "bold" if name.startswith("over") else ""
    above = ""
    for row in cells.rows:
        if row[0] != above and cells.header[0]:
            made.add_section()
        # These reasons are as wide as a time and its ratio.
        words = "|".join(row)
        for reason in (OVER_BUDGET, TOO_LARGE):
            words = words.replace(f"|{reason}|-", f"|{reason.replace(' ', '|')}")
        first, label, *numbers = words.split("|")
        made.add_row(first if first != above else "", label.removeprefix("lieattn "), *numbers)
        above = first
    return made


def _narrow(header: str) -> str:
    """Short names of passes, above their units."""
    what, _, unit = header.partition(", ")
    if unit == "MB":
        return f"memory\n{'fwd' if what == 'forward' else 'all'} MB"
    short = {PASSES[which]: SHORT[which] for which in PASSES}
    return f"{short[what]}\n{unit}" if unit else "\nx" if what.startswith("over") else what
