"""What was found, in a terminal of 80 columns."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ... import data
from ..._core.text import LINE, printable
from ...data.describe import NEAR, about, percent
from .findings import COMES_ALONG, Findings

MOST_FILES, MOST_NOTES = 20, 8  # lines of each
_SETTLED = ("as asked", COMES_ALONG)  # formats that nobody guessed


def print_findings(found: Findings, console: Console) -> None:
    """The files, then every group: numbers and advice."""
    folders = {os.path.dirname(file.path) for file in found.files}
    folder = folders.pop() if len(folders) == 1 else ""

    def short(file: data.PoseSets) -> str:
        return printable(os.path.basename(file.path) if folder else file.path, LINE)

    notes = [(short(file), x) for file in found.files for x in (*file.notes, *file.gaps)]
    if len(found.files) == 1:
        console.print(_one_file(found.files[0]))
        notes = [("", x) for _, x in notes]
    elif found.files:
        console.print(_files(found.files, [short(x) for x in found.files], folder))
    for name, note in notes[:MOST_NOTES]:
        console.print(_bullet(f"{name}: {note}" if name else note, "note", "yellow"))
    if len(notes) > MOST_NOTES:
        console.print(_bullet(f"{len(notes) - MOST_NOTES:,} more (--json).", "note", "yellow"))
    for summary, _ in found.summaries.values():
        console.print(_numbers(summary))
        for text in summary.advice():
            console.print(_bullet(text, "advice", "green"))


def _one_file(file: data.PoseSets) -> Text:
    title = data.formats()[file.format].title
    return Text.assemble(
        (f"\n{printable(file.path, LINE)}\n", "bold"),
        f"{title}, {file.why}",
        (" (--format forces another)" if file.why not in _SETTLED else "", "dim"),
        overflow="fold",
    )


def _files(files: list[data.PoseSets], names: list[str], folder: str) -> Group:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    table.add_column("file", overflow="fold", ratio=1)
    for head in ("read as", "group"):
        table.add_column(head, no_wrap=True)
    for head in ("sets", "poses"):
        table.add_column(head, justify="right", no_wrap=True)
    for file, name in zip(files[:MOST_FILES], names, strict=False):
        sizes = (f"{len(file):,}", f"{sum(int(x.mask.sum()) for x in file):,}")
        table.add_row(Text(name), file.format, str(file.group), *sizes)
    place = f" in {printable(folder, LINE)}" if folder else ""
    lines: list[RenderableType] = [Text(f"\n{len(files):,} files{place}", "bold"), "", table]
    if (more := len(files) - MOST_FILES) > 0:
        lines.append(Text(f"... and {more:,} files more (--json lists them)", "dim"))
    if any(file.why not in _SETTLED for file in files):
        hint = "Formats were chosen by contents and names; --format forces another."
        lines.append(Text(hint, "dim"))
    return Group(*lines)


def _numbers(summary: data.Summary) -> Group:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(style="dim")
    for name, value, remark in _rows(summary):
        table.add_row(name, Text(value, "bold"), remark)
    return Group("", Text(str(summary.group), "bold cyan"), Padding(table, (0, 0, 0, 2)))


def _rows(x: data.Summary) -> Iterable[tuple[str, str, str]]:
    masked = f"{x.masked:,} more are masked" if x.masked else ""
    yield "poses", f"{x.poses:,}", masked
    sizes = f"{x.smallest:,} to {x.largest:,} poses, median {x.median:,}"
    if x.sets == 1:
        sizes = f"{x.largest:,} pose{'s' * (x.largest > 1)}"
    yield "sets", f"{x.sets:,}", f"of {sizes}"
    if x.mirrored:
        yield "mirrored", percent(x.mirrored), "of the poses: negative determinant"
    if not x.pairs:
        return
    yield "pairs", f"{x.pairs:,}", "measured, within sets"
    if x.group.name.startswith("Aff"):
        yield "off the chart", percent(x.off_chart), "of the pairs: no principal logarithm"
    degrees = NEAR * 57.29578
    yield "near the cut", percent(x.near_cut), f"within {NEAR:g} rad ({degrees:.1f} degrees) of it"
    if x.distance is not None:
        yield "distance", f"{x.distance:.3g}", "of a pair, root mean square"
    if x.spread is not None:
        yield "spread", f"{about(x.spread)}x", "widest set over narrowest"
    if x.offset is not None:
        yield "offset", f"{about(x.offset)}x", "from the origin, in distances of pairs"


def _bullet(text: str, label: str, style: str) -> Table:
    """A label and a text that wraps beside it."""
    line = Table.grid(padding=(0, 1))
    line.add_column(no_wrap=True, width=8, style=style)
    line.add_column(overflow="fold")
    line.add_row(f"  {label}", Text(text))
    return line
