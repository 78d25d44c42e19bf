"""`lieattn data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .._core.random import MAX_SEED
from ..data import DATASETS, formats
from .shared import errors_told


def data(
    files: Annotated[
        list[Path],
        typer.Argument(help=f"Files, or a data set: {', '.join(DATASETS)}.", show_default=False),
    ],
    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(formats())}; by default detected."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Read poses as elements of this group; SO3 keeps the rotations."),
    ] = None,
    bad: Annotated[
        str,
        typer.Option(help="Invalid poses: gaps (NaN is a gap, others are errors), error, mask."),
    ] = "gaps",
    limit: Annotated[float, typer.Option(min=0.001, max=1e9, help="Largest file, in MB.")] = 256.0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a set and histograms of its pairs: .png, .svg, .pdf.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the poses to this .npz.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Seed of the sample of pairs.")
    ] = 0,
) -> None:
    """Describe files of poses, and recommend settings for training.

    Prints the group, counts, distances, and pairs outside the chart or near its cut.

    Exits with 2 if a file cannot be read; the others are read.
    """
    from ..workflows.inspection.findings import Request
    from ..workflows.inspection.run import run

    with errors_told() as tell:
        asked = Request(files, format, group, bad, limit, seed)
        for line in run(asked, Console(), plot=plot, save=save, as_json=json):
            tell(line)
