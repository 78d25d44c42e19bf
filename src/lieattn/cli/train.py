"""`lieattn train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..data import DATASETS
from .errors import errors_told

# Groups of options in the help.
DATA, MODEL, TRAINING, OUTPUT = "Data", "Model", "Training", "Output"
_FILES = f"Files of poses, or a data set: {', '.join(DATASETS)}."


def train(
    files: Annotated[list[str] | None, typer.Argument(help=_FILES, show_default=False)] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file of these options; flags come first.", rich_help_panel=DATA),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="G (the default), C (learned kernel), A (vector tokens).", rich_help_panel=MODEL
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder; runs/ and the name of the data.", rich_help_panel=OUTPUT),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Batches; 2000.", rich_help_panel=TRAINING)
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Windows a batch and process; 32.", rich_help_panel=TRAINING)
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Poses of a window; 32.", rich_help_panel=DATA)
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            help="From a window to the next; 1, more in long files.", rich_help_panel=DATA
        ),
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option(help="Poses left out between parts of one trajectory.", rich_help_panel=DATA),
    ] = None,
    hide: Annotated[
        float | None, typer.Option(help="Share of poses to hide; 0.15.", rich_help_panel=DATA)
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(help="Hide tokens, runs, mixed, or any (the default).", rich_help_panel=DATA),
    ] = None,
    chart: Annotated[
        str | None,
        typer.Option(
            help="principal, polar, or auto: as lieattn data advises.", rich_help_panel=MODEL
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="Divide translations by this; auto: as advised.", rich_help_panel=DATA),
    ] = None,
    normalise: Annotated[
        bool | None,
        typer.Option(
            help="Scale each set by itself; as advised.", show_default=False, rich_help_panel=DATA
        ),
    ] = None,
    dim: Annotated[
        int | None, typer.Option(help="Width of the model; 64.", rich_help_panel=MODEL)
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Attention heads; 4.", rich_help_panel=MODEL)
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers; 3.", rich_help_panel=MODEL)] = None,
    second_differences: Annotated[
        int | None,
        typer.Option(
            help="Poses on each side that hidden ones are told of; 2.", rich_help_panel=MODEL
        ),
    ] = None,
    kinds: Annotated[
        int | None,
        typer.Option(help="Kinds of poses to tell apart by their names; 0.", rich_help_panel=DATA),
    ] = None,
    absolute_frame: Annotated[
        bool | None,
        typer.Option(
            help="Tell poses how they stand in the file's frame.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    copies: Annotated[
        bool | None,
        typer.Option(
            help="Answers may copy parts of visible poses.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = None,
    analogies: Annotated[
        bool | None,
        typer.Option(
            help="Or repeat steps between visible poses.", show_default=False, rich_help_panel=MODEL
        ),
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share that is dropped; 0.", rich_help_panel=MODEL)
    ] = None,
    pose_updates: Annotated[
        bool | None,
        typer.Option(
            help="Move hidden poses between layers.", show_default=False, rich_help_panel=MODEL
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; 0.002.", rich_help_panel=TRAINING)
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest norm of a gradient; 1.", rich_help_panel=TRAINING)
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            help="Steps between validations and checkpoints; 100.", rich_help_panel=TRAINING
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of all that is drawn; 0.", rich_help_panel=TRAINING)
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Of a process; a core each, at most 4.", rich_help_panel=TRAINING),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Of the files; what they look like.", rich_help_panel=DATA)
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Take poses as of this group.", rich_help_panel=DATA)
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(
            help="Invalid poses: gaps (NaN is a gap, others are errors), error, mask.",
            rich_help_panel=DATA,
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard", help="Write curves for TensorBoard too.", rich_help_panel=OUTPUT
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Train a model to fill gaps: poses are hidden, and found from the others.

    Split, window, chart and scale are chosen from the data and said.

    Stop it any way you like, kill -9 included: the same command goes on from
    the last checkpoint and ends with the same numbers.

    On several processes: torchrun --nproc-per-node=2 -m lieattn.cli train ...
    """
    options = dict(locals())
    from ..workflows.process_group import process_group, set_threads
    from ..workflows.settings import merged
    from ..workflows.store import TrainFolder
    from ..workflows.train import train as run_training

    flags: dict[str, Any] = {
        "files": files,
        "model": model.upper() if model else None,
        "scale": _scale(scale),
        **{name: options[name] for name in _PLAIN},
    }
    with process_group() as processes, errors_told(quiet=not processes.writes):
        settings = merged(config, flags)
        folder = out or Path("runs") / _stem(settings.files[0])
        set_threads(threads or (None if overwrite else TrainFolder(folder).threads()), processes)
        console = Console(quiet=not processes.writes)
        run_training(
            settings, folder, console, processes, overwrite=overwrite, tensorboard=tensorboard
        )


# Options that are fields of the settings as they are.
_PLAIN = (
    *("steps", "batch", "window", "stride", "gap", "hide", "gaps", "chart", "normalise"),
    *(
        "dim",
        "heads",
        "layers",
        "second_differences",
        "kinds",
        "absolute_frame",
        "copies",
        "analogies",
        "dropout",
        "pose_updates",
        "rate",
        "clip",
        "every",
        "seed",
    ),
    *("format", "group", "bad"),
)


def _scale(text: str | None) -> str | float | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"a number or auto, got {text!r}.", param_hint="--scale") from None


def _stem(name: str) -> str:
    return Path(name).name.split(".")[0] or "train"
