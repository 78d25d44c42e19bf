"""`lieattn train`. Its options are the fields of `TrainSettings`, with their help and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..workflows.settings import DATA, OPTIONS, TRAINING, merged
from .shared import FILES, declare, errors_told, given

OUTPUT = "Output"


def train(
    ctx: typer.Context,
    files: Annotated[list[str] | None, FILES] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with these options; flags win.", rich_help_panel=DATA),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; by default runs/ and the file's name.", rich_help_panel=OUTPUT),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Threads of each process; by default one per core, at most 4.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write TensorBoard curves.", rich_help_panel=OUTPUT),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start again from step 0.", rich_help_panel=OUTPUT)
    ] = False,
    **settings: Any,
) -> None:
    """Train a model that fills gaps: some poses are hidden and predicted from the rest.

    Split, windows, chart and scale are chosen from the data and printed.

    After any interruption, kill -9 included, the same command resumes from
    the last checkpoint and ends with the same numbers.

    On several processes: torchrun --nproc-per-node=2 -m lieattn.cli train ...
    """
    from ..workflows.process_group import process_group, set_threads
    from ..workflows.store import TrainFolder
    from ..workflows.train import train as run_training

    flags = given(ctx, settings) | ({"files": files} if files else {})
    with process_group() as processes, errors_told(quiet=not processes.writes):
        found = merged(config, flags)
        folder = out or Path("runs") / (Path(found.files[0]).name.split(".")[0] or "train")
        set_threads(threads or (None if overwrite else TrainFolder(folder).threads()), processes)
        console = Console(quiet=not processes.writes)
        run_training(
            found, folder, console, processes, overwrite=overwrite, tensorboard=tensorboard
        )


def _of_settings() -> Iterator[inspect.Parameter]:
    for name, x in OPTIONS.items():
        if name == "files":
            continue
        kind = next((k for k in (bool, str) if k in x.kinds), x.kinds[0])
        default: Any = x.default if x.practice is None else x.practice
        shown: bool | str = default is not False and default != ""
        if kind is bool and isinstance(default, str):
            default, shown = None, default
        known = ", ".join(filter(None, x.choices)) if kind is str else ""
        choices = f" ({known})." if "," in known else ""
        declared = typer.Option(
            help=f"{x.help}{choices}", rich_help_panel=x.panel, show_default=shown
        )
        annotation: Any = Annotated[kind | None, declared]
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )


declare(train, _of_settings())
