"""`lieattn bench`: measure, print the tables, write the files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from ..._core.errors import RunError
from ..._core.files import json_bytes
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
        RunError: something that the user can mend.
    """
    _require_writable(out)
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
            if found["cells"]:
                print_tables(found, console)
                _print(bench.left_out(), console)
                _print([str(path) for path in write(found, out)], console)
                keep(f"What was measured is in {out}.")


def _print(lines: list[str], console: Console) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def write(found: dict[str, Any], out: Path) -> list[Path]:
    """The numbers, the page and its figures; where they are."""
    paths = [_save(out / RESULTS, json_bytes(found))]  # first: drawing takes seconds
    page = document(found)
    paths.append(_save(out / PAGE, markdown.render(page, folder=".").encode()))
    return paths + [_save(out / f"{figure.name}.svg", figure.svg) for figure in page.figures()]


def _save(path: Path, content: bytes) -> Path:
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        raise RunError(_cannot_write(path, error)) from None
    return path


def _require_writable(out: Path) -> None:
    """Find out now, not after an hour."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise RunError(_cannot_write(out, error)) from None


def _cannot_write(path: Path, error: OSError) -> str:
    return f"cannot write {path}: {error.strerror or error}. Choose another folder with --out."
