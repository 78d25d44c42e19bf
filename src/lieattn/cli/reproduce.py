"""`lieattn reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .shared import errors_told


def reproduce(
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="SE2, SO3, Aff2 (the paper's, the default), SO2, SE3, Aff3, or all. Give it "
            "again for more than one."
        ),
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="G, C, A, or all (the default).")] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="paper (the default), improved, or all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every configuration.")] = 3,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the data; 200, or 20 with --quick.")
    ] = None,
    instances: Annotated[int, typer.Option(help="Training sequences of a run.")] = 5000,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All 200 epochs, or a first look in minutes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs; runs/full or runs/quick.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one per core.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Repeat finished runs.")] = False,
) -> None:
    """Run the paper's experiments; write a report of tables and figures.

    After any interruption the same command resumes and ends with the same numbers.
    Finished runs are not repeated.
    """
    from ..lab.paper import reproduce as experiments

    with errors_told():
        plan = experiments.plan_of(
            group or [],
            model or [],
            protocol or [],
            seeds=seeds,
            epochs=epochs,
            instances=instances,
            quick=not full,
        )
        folder = out or Path("runs") / ("full" if full else "quick")
        workers = jobs or experiments.cores()
        experiments.run(plan, folder, Console(), jobs=workers, overwrite=overwrite)
