"""`lieattn realdata`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .shared import JOBS, OVERWRITE, errors_told


def realdata(
    group: Annotated[
        list[str] | None, typer.Option(help="One of the paper's six; by default all. Repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every model.")] = 3,
    steps: Annotated[
        int | None, typer.Option(min=10, help="Batches of every run; by default a recipe's.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Path(
        "runs/realdata"
    ),
    jobs: Annotated[int | None, JOBS] = None,
    overwrite: Annotated[bool, OVERWRITE] = False,
) -> None:
    """Train models on the built-in data sets, and compare them with simple methods.

    Writes a report of tables and figures. After any interruption the same
    command resumes. On SE(3) invariant-point-attention is included if it is
    installed.
    """
    from ..lab.paper.reproduce import cores
    from ..lab.realdata.plan import chosen, plan
    from ..lab.realdata.run import realdata as run_realdata

    with errors_told():
        runs = plan(chosen(group or []), seeds, steps, out)
        words = ["lieattn realdata", *(f"--group {name}" for name in group or [])]
        words += [f"--seeds {seeds}"] if seeds != 3 else []
        words += [f"--steps {steps}"] if steps is not None else []
        command = " ".join(words)
        workers = jobs or cores()
        run_realdata(runs, out, Console(), jobs=workers, overwrite=overwrite, command=command)
