"""What `lieattn` can do, one function a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..data import DATASETS, formats
from . import MAX_SEED, model_commands

app = typer.Typer(
    help="Lie-Algebra Attention: transformers whose tokens are group elements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from .. import __version__

        print(f"lieattn {__version__}")
        raise typer.Exit


@app.command()
def verify(
    samples: Annotated[int, typer.Option(min=1, help="Random samples a group and dtype.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Of the samples.")] = 0,
) -> None:
    """Compute the paper's table of instantiations and measure the laws it proves.

    Exits with 1 if anything disagrees.
    """
    from . import verify as verification

    if not verification.run(Console(), samples, seed):
        raise typer.Exit(1)


@app.command()
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
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run anew what is finished.")] = False,
) -> None:
    """Run the paper's experiments; write a report of tables and figures.

    Stop it any way you like: the same command goes on from where it was, and ends with the same
    numbers. What is finished is not run again.
    """
    from . import reproduce as experiments
    from .storage import RunError

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        asked = experiments.request(
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
        experiments.run(asked, folder, Console(), jobs=workers, again=again)
    except RunError as error:
        errors.print(f"lieattn: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        then = "The same command, without --again," if again else "The same command"
        errors.print(f"lieattn: stopped. {then} goes on from here.")
        raise typer.Exit(130) from None


@app.command()
def bench(
    group: Annotated[
        list[str] | None,
        typer.Option(help="The paper's six (the default), any other, or all. Repeatable."),
    ] = None,
    n: Annotated[list[int] | None, typer.Option(help="Poses; 512, 2048, 8192. Repeatable.")] = None,
    head_width: Annotated[
        list[int] | None, typer.Option(help="Width of a head; 16, 64. Repeatable.")
    ] = None,
    long: Annotated[
        list[int] | None,
        typer.Option(help="Poses of forward passes alone, one turn, first width. Repeatable."),
    ] = None,
    heads: Annotated[int, typer.Option(help="Heads.")] = 4,
    batch: Annotated[int, typer.Option(help="Sets in a batch.")] = 1,
    backend: Annotated[
        list[str] | None, typer.Option(help="Of lie_attention; all that work. Repeatable.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(help="Turns of every contestant; 100, or 5 with --quick.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Seconds of a contestant, case and pass; 2, or 0.5 with --quick."),
    ] = None,
    patience: Annotated[
        float | None, typer.Option(help="Leave out calls expected to take more seconds; 10.")
    ] = None,
    limit: Annotated[
        float | None, typer.Option(help="Leave out calls expected to take more GB; half of free.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Of torch; its own choice.")] = None,
    backward: Annotated[bool, typer.Option(help="Time backward passes too.")] = True,
    memory: Annotated[bool, typer.Option(help="Measure peak memory.")] = True,
    layer: Annotated[
        bool, typer.Option(help="The layer at the paper's size, beside its reference backend.")
    ] = True,
    peers: Annotated[bool, typer.Option(help="IPA and EGNN layers, if installed.")] = True,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: SE3, width 16, N 128 and 512.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files; replaces those there.")] = Path(
        "runs/bench"
    ),
) -> None:
    """Time attention over poses beside plain attention, and measure its memory.

    Each takes turns with scaled_dot_product_attention on the same sizes; ratios are of least times.

    Writes bench.json, bench.md and figures. Ctrl-C keeps what is measured by then.
    """
    from .bench.request import request
    from .bench.run import run
    from .storage import RunError

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        asked = request(
            group or [],
            n or [],
            head_width or [],
            backend or [],
            long or [],
            heads=heads,
            batch=batch,
            repeat=repeat,
            budget=budget,
            patience=patience,
            limit=limit,
            threads=threads,
            backward=backward,
            memory=memory,
            layer=layer,
            peers=peers,
            quick=quick,
        )
        stopped = run(asked, out, Console())
    except RunError as error:
        errors.print(f"lieattn: {error}")
        raise typer.Exit(2) from None
    if stopped:
        errors.print(f"lieattn: {stopped}")
        raise typer.Exit(130)


@app.command()
def data(
    files: Annotated[
        list[Path],
        typer.Argument(help=f"Files, or a data set: {', '.join(DATASETS)}.", show_default=False),
    ],
    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(formats())}; by default what the file looks like."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Take poses as of this group: SO3 for rotations alone.")
    ] = None,
    bad: Annotated[
        str, typer.Option(help="Poses that are none, such as NaN: error, or mask.")
    ] = "error",
    limit: Annotated[float, typer.Option(min=0.001, max=1e9, help="Largest file, in MB.")] = 256.0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a set and its pairs: .png, .svg, .pdf.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the poses to this .npz.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Of the sample of pairs.")] = 0,
) -> None:
    """Say what is in files of poses, and what to do before training on them.

    Group, counts, distances, pairs off the chart or near its cut; which chart, which scale.

    Exits with 2 if a file cannot be read; the others are read all the same.
    """
    from .inspection.findings import Request
    from .inspection.run import run
    from .storage import RunError

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    asked = Request(files, format, group, bad, limit, seed)
    try:
        failed = run(asked, Console(), plot=plot, save=save, as_json=json)
    except RunError as error:
        failed = [str(error)]
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for line in failed:
        errors.print(f"lieattn: {line}")
    if failed:
        raise typer.Exit(2)


app.command()(model_commands.train)
app.command()(model_commands.predict)
app.command()(model_commands.evaluate)
app.command()(model_commands.realdata)
