"""`lieattn train`, `predict` and `evaluate`: models of poses of your own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..data import DATASETS
from .storage import RunError

_FILES = f"Files of poses, or a data set: {', '.join(DATASETS)}."


@contextlib.contextmanager
def errors_told(prefix: str = "lieattn", quiet: bool = False) -> Iterator[Console]:
    """What a user can mend is said in a line, without a traceback."""
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True, quiet=quiet)
    try:
        yield errors
    except RunError as error:
        errors.print(f"{prefix}: {error}")
        raise typer.Exit(2) from None


def train(
    files: Annotated[list[str] | None, typer.Argument(help=_FILES, show_default=False)] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of these options; flags come first.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="G (the default), C (learned kernel), A (vector tokens).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; runs/ and the name of the data.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Batches; 2000.")] = None,
    batch: Annotated[int | None, typer.Option(help="Windows a batch and process; 32.")] = None,
    window: Annotated[int | None, typer.Option(help="Poses of a window; 32.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="From a window to the next; 1, more in long files.")
    ] = None,
    gap: Annotated[
        int | None, typer.Option(help="Poses left out between parts of one trajectory.")
    ] = None,
    hide: Annotated[float | None, typer.Option(help="Share of poses to hide; 0.15.")] = None,
    gaps: Annotated[
        str | None, typer.Option(help="Hide tokens, runs, mixed, or any (the default).")
    ] = None,
    chart: Annotated[
        str | None, typer.Option(help="principal, polar, or auto: as lieattn data advises.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="Divide translations by this; auto: as advised.")
    ] = None,
    normalise: Annotated[
        bool | None, typer.Option(help="Scale each set by itself; as advised.", show_default=False)
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Width of the model; 64.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads; 4.")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers; 3.")] = None,
    bends: Annotated[
        int | None, typer.Option(help="Poses on each side that hidden ones are told of; 2.")
    ] = None,
    kinds: Annotated[
        int | None, typer.Option(help="Kinds of poses to tell apart by their names; 0.")
    ] = None,
    framed: Annotated[
        bool | None,
        typer.Option(help="Tell poses how they stand in the file's frame.", show_default=False),
    ] = None,
    copies: Annotated[
        bool | None,
        typer.Option(help="Answers may copy parts of visible poses.", show_default=False),
    ] = None,
    analogies: Annotated[
        bool | None,
        typer.Option(help="Or repeat steps between visible poses.", show_default=False),
    ] = None,
    dropout: Annotated[float | None, typer.Option(help="Share that is dropped; 0.")] = None,
    pose_updates: Annotated[
        bool | None, typer.Option(help="Move hidden poses between layers.", show_default=False)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Peak learning rate; 0.002.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a gradient; 1.")] = None,
    every: Annotated[
        int | None, typer.Option(help="Steps between validations and checkpoints; 100.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of all that is drawn; 0.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of a process; a core each, at most 4.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Of the files; what they look like.")] = None,
    group: Annotated[str | None, typer.Option(help="Take poses as of this group.")] = None,
    bad: Annotated[str | None, typer.Option(help="Rows that are no pose: error, mask.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write curves for TensorBoard too.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Start anew.")] = False,
) -> None:
    """Train a model to fill gaps: poses are hidden, and found from the others.

    Split, window, chart and scale are chosen from the data and said.

    Stop it any way you like, kill -9 included: the same command goes on from
    the last checkpoint and ends with the same numbers.

    On several processes: torchrun --nproc-per-node=2 -m lieattn.cli train ...
    """
    options = dict(locals())
    from .infill.run import train as run_training
    from .infill.settings import merged
    from .infill.store import TrainFolder
    from .infill.world import lost, set_threads, world

    flags: dict[str, Any] = {
        "files": files,
        "model": model.upper() if model else None,
        "scale": _scale(scale),
        **{name: options[name] for name in _PLAIN},
    }
    with world() as processes, errors_told(quiet=not processes.writes) as errors:
        settings = merged(config, flags)
        folder = out or Path("runs") / _stem(settings.files[0])
        set_threads(threads or (None if again else TrainFolder(folder).threads()), processes)
        console = Console(quiet=not processes.writes)
        try:
            run_training(settings, folder, console, processes, again=again, tensorboard=tensorboard)
        except RuntimeError as error:
            if processes.writes or not lost(error):
                raise
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            then = "The same command, without --again," if again else "The same command"
            errors.print(f"lieattn: stopped. {then} goes on from the last checkpoint.")
            raise typer.Exit(130) from None


# Options that are fields of the settings as they are.
_PLAIN = (
    *("steps", "batch", "window", "stride", "gap", "hide", "gaps", "chart", "normalise"),
    *(
        "dim",
        "heads",
        "layers",
        "bends",
        "kinds",
        "framed",
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


def predict(
    checkpoint: Annotated[Path, typer.Argument(help="Folder or checkpoint of lieattn train.")],
    files: Annotated[list[str], typer.Argument(help=_FILES, show_default=False)],
    hide: Annotated[
        str, typer.Option(help="Hide some too: 10%, or places 3,7-9, counted from 0.")
    ] = "",
    level: Annotated[
        float, typer.Option(help="Share of answers within their bounds: 0.5, 0.8, 0.9, 0.95.")
    ] = 0.9,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw them: .png, .svg, .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write all poses: .npz, .tum.")] = None,
    format: Annotated[str, typer.Option(help="Of the files; what they look like.")] = "",
    group: Annotated[str, typer.Option(help="Take poses as of this group.")] = "",
    seed: Annotated[int, typer.Option(help="Of what a share hides.")] = 0,
) -> None:
    """Fill the gaps of files: rows without a pose (nan), and those hidden with --hide.

    Every answer comes with bounds, which hold for a share --level of answers
    on data like those of validation.

    Exits with 2 if a file or set could not be filled; the others are filled.
    """
    from ..infill import LEVELS
    from .infill.predict import PredictRequest
    from .infill.predict import predict as run_prediction

    with errors_told() as errors:
        if level not in LEVELS:
            raise RunError(f"--level is one of {', '.join(map(str, LEVELS))}, got {level}.")
        asked = PredictRequest(checkpoint, files, hide, level, format, group, seed)
        problems = run_prediction(asked, Console(), as_json=json, plot=plot, save=save)
        for text in problems:
            errors.print(f"lieattn: {text}")
    if problems:
        raise typer.Exit(2)


def evaluate(
    checkpoints: Annotated[
        list[Path], typer.Argument(help="Folders or checkpoints of lieattn train.")
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(help="Files, or a data set; the test part of training. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON here too.")] = None,
) -> None:
    """Errors on hidden poses of the test part, beside those of simple rivals.

    Rivals: a copy of the nearest visible pose, and the pose between the two on both sides.
    """
    from .infill.evaluate import evaluate as run_evaluation

    with errors_told():
        run_evaluation(checkpoints, on or [], Console(), as_json=json, out=out)


def realdata(
    group: Annotated[
        list[str] | None, typer.Option(help="One of the paper's six; all of them. Repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ... of every model.")] = 3,
    steps: Annotated[
        int | None, typer.Option(min=10, help="Batches of every run; as was found best.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and the report.")] = Path(
        "runs/realdata"
    ),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run anew what is finished.")] = False,
) -> None:
    """Train models on the data sets that come along, beside simple rivals.

    Writes a report of tables and figures. Stop it any way you like: the same
    command goes on from where it was. On SE(3) invariant-point-attention
    joins in, if it is installed.
    """
    from .realdata.plan import chosen, plan
    from .realdata.run import realdata as run_realdata
    from .reproduce import cores

    with errors_told() as errors:
        asked = chosen(group or [])
        runs = plan(asked, seeds, steps, out)
        given = "".join(f" --group {name}" for name in group or [])
        given += f" --seeds {seeds}" if seeds != 3 else ""
        given += f" --steps {steps}" if steps is not None else ""
        try:
            run_realdata(
                runs,
                out,
                Console(),
                jobs=jobs or cores(),
                again=again,
                command=f"lieattn realdata{given}",
            )
        except KeyboardInterrupt:
            errors.print("lieattn: stopped. The same command, without --again, goes on from here.")
            raise typer.Exit(130) from None
