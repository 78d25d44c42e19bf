"""`lieattn bench`: measure, print the tables, write the files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from ..._core.folders import write_bytes, write_json, writing
from ..._core.stopping import Stopped, held, keep, unwinding
from ..report import markdown
from .measuring import Bench
from .page import document
from .progress import follow
from .request import Request
from .results import gather
from .terminal import print_tables

RESULTS, PAGE = "bench.json", "bench.md"


def run(asked: Request, out: Path, console: Console) -> None:
    """Measure what was asked for; if a signal comes, write what is measured.

    Raises:
        RunError: the files cannot be written.
    """
    with writing(out):  # found out before an hour of measuring
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    bench = Bench(asked)
    _print(bench.notes, console)
    complete = True
    with unwinding():
        try:
            follow(bench.run(), len(asked.plan()), console)
        except Stopped:
            complete = False
        with held():
            found = gather(bench, complete)
            if not found["cells"]:
                return
            print_tables(found, console)
            paths = [out / RESULTS, out / PAGE]
            write_json(paths[0], found)  # first: drawing takes seconds
            page = document(found)
            write_bytes(paths[1], markdown.render(page, folder=".").encode())
            for figure in page.figures():
                paths.append(out / f"{figure.name}.svg")
                write_bytes(paths[-1], figure.svg)
            _print([*bench.left_out(), *map(str, paths)], console)
            keep(f"What was measured is in {out}.")


def _print(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
