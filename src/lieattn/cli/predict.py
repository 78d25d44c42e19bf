"""`lieattn predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .._core.errors import RunError
from .shared import FILES, JSON, errors_told


def predict(
    checkpoint: Annotated[Path, typer.Argument(help="Folder or checkpoint of lieattn train.")],
    files: Annotated[list[str], FILES],
    hide: Annotated[
        str, typer.Option(help="Hide poses too: 10%, or places 3,7-9, counted from 0.")
    ] = "",
    level: Annotated[
        float, typer.Option(help="Share of errors within the bounds: 0.5, 0.8, 0.9, 0.95.")
    ] = 0.9,
    json: Annotated[bool, JSON] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the longest gaps: .png, .svg, .pdf.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write all poses: .npz, .tum, .csv.")] = None,
    format: Annotated[str, typer.Option(help="Format of the files; by default detected.")] = "",
    group: Annotated[str, typer.Option(help="Read poses as elements of this group.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the poses that --hide 10% selects.")] = 0,
) -> None:
    """Fill gaps in files: rows of nan, and rows hidden with --hide.

    Every answer has an error bound. On data like the validation part, the share
    --level of the errors is within the bound.

    Exits with 2 if a file or set could not be filled; the others are filled.
    """
    from ..models.infill.model import LEVELS
    from ..workflows.predict import PredictRequest
    from ..workflows.predict import predict as run_prediction

    with errors_told() as tell:
        if level not in LEVELS:
            raise RunError(f"--level is one of {', '.join(map(str, LEVELS))}, got {level}.")
        asked = PredictRequest(checkpoint, files, hide, level, format, group, seed)
        for text in run_prediction(asked, Console(), as_json=json, plot=plot, save=save):
            tell(text)
