"""`lieattn evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .shared import JSON, errors_told


def evaluate(
    checkpoints: Annotated[
        list[Path], typer.Argument(help="Folders or checkpoints of lieattn train.")
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(help="Files, or a data set; the test part of training. Repeatable."),
    ] = None,
    json: Annotated[bool, JSON] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON here too.")] = None,
) -> None:
    """Print errors on hidden poses of the test part, with those of simple methods.

    Simple methods: a copy of the nearest visible pose, and geodesic interpolation.
    """
    from ..workflows.evaluate import evaluate as run_evaluation

    with errors_told():
        run_evaluation(checkpoints, on or [], Console(), as_json=json, out=out)
