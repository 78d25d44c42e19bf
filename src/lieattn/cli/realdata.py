"""`lieattn realdata`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .shared import errors_told


def realdata(
    group: Annotated[
        list[str] | None, typer.Option(help="One of the paper's six; by default all. Repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every model.")] = 3,
    steps: Annotated[
        int | None,
        typer.Option(min=10, help="Batches of every run; by default those of the recipe."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Path(
        "runs/realdata"
    ),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one per core.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Run finished runs again.")
    ] = False,
) -> None:
    """Train models on the data sets that come along, beside simple rivals.

    Writes a report of tables and figures. After any interruption the same
    command resumes. On SE(3) invariant-point-attention is included if it is
    installed.
    """
    from ..lab.paper.reproduce import cores
    from ..lab.realdata.plan import chosen, plan
    from ..lab.realdata.run import realdata as run_realdata

    with errors_told():
        asked = chosen(group or [])
        runs = plan(asked, seeds, steps, out)
        given = "".join(f" --group {name}" for name in group or [])
        given += f" --seeds {seeds}" if seeds != 3 else ""
        given += f" --steps {steps}" if steps is not None else ""
        run_realdata(
            runs,
            out,
            Console(),
            jobs=jobs or cores(),
            overwrite=overwrite,
            command=f"lieattn realdata{given}",
        )
