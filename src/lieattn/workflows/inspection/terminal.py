"""What was found, in a terminal of 80 columns."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
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
    if len(found.files) == 1:
        console.print(_one_file(found.files[0]))
    elif found.files:
        console.print(_files(found.files))
    _notes(found.files, console)
    for name in found.summaries:
        summary = found.summaries[name][0]
        console.print(_numbers(summary))
        console.print(_advice(summary))


def _one_file(file: data.PoseSets) -> Text:
    title = data.formats()[file.format].title
    return Text.assemble(
        (f"\n{printable(file.path, LINE)}\n", "bold"),
        f"{title}, {file.why}",
        (" (--format forces another)" if file.why not in _SETTLED else "", "dim"),
        overflow="fold",
    )


def _files(files: list[data.PoseSets]) -> Group:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    folder = _folder(files)
    table.add_column("file", overflow="fold", ratio=1)
    table.add_column("read as", no_wrap=True)
    table.add_column("group", no_wrap=True)
    table.add_column("sets", justify="right", no_wrap=True)
    table.add_column("poses", justify="right", no_wrap=True)
    for file in files[:MOST_FILES]:
        poses = sum(int(x.mask.sum()) for x in file)
        sizes = (f"{len(file):,}", f"{poses:,}")
        table.add_row(Text(_short(file, folder)), file.format, str(file.group), *sizes)
    more = len(files) - MOST_FILES
    rest = [Text(f"... and {more:,} files more (--json lists them)", "dim")] if more > 0 else []
    hint = Text("Formats were chosen by contents and names; --format forces another.", "dim")
    asked = all(file.why in _SETTLED for file in files)
    place = f" in {printable(folder, LINE)}" if folder else ""
    title = Text(f"\n{len(files):,} files{place}", "bold")
    return Group(title, "", table, *rest, *([] if asked else [hint]))


def _folder(files: list[data.PoseSets]) -> str:
    """The folder that all of them are in; blank if they are from here and there."""
    folders = {os.path.dirname(file.path) for file in files}
    return folders.pop() if len(folders) == 1 else ""


def _short(file: data.PoseSets, folder: str) -> str:
    return printable(os.path.basename(file.path) if folder else file.path, LINE)


def _notes(files: list[data.PoseSets], console: Console) -> None:
    several = len(files) > 1
    folder = _folder(files) if files else ""
    notes = [
        f"{_short(file, folder)}: {x}" if several else x
        for file in files
        for x in (*file.notes, *file.gaps)
    ]
    for note in notes[:MOST_NOTES]:
        console.print(_bullet(note, "note", "yellow"))
    if len(notes) > MOST_NOTES:
        console.print(_bullet(f"{len(notes) - MOST_NOTES:,} more (--json).", "note", "yellow"))


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
    yield "pairs", f"{x.pairs:,}", "looked at, within sets"
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


def _advice(summary: data.Summary) -> Group:
    return Group(*(_bullet(text, "advice", "green") for text in summary.advice()))


def _bullet(text: str, label: str, style: str) -> Table:
    """A label and a text that wraps beside it."""
    line = Table.grid(padding=(0, 1))
    line.add_column(no_wrap=True, width=8, style=style)
    line.add_column(overflow="fold")
    line.add_row(f"  {label}", Text(text))
    return line
