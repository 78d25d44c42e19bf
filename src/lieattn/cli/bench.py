"""`lieattn bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .shared import errors_told


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
    backward: Annotated[bool, typer.Option(help="Leave out backward passes.")] = True,
    memory: Annotated[bool, typer.Option(help="Leave out peak memory.")] = True,
    layer: Annotated[bool, typer.Option(help="Leave out the layer at the paper's size.")] = True,
    peers: Annotated[bool, typer.Option(help="Leave out the layers of IPA and EGNN.")] = True,
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
    from ..lab.bench.request import request
    from ..lab.bench.run import run

    with errors_told():
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
        run(asked, out, Console())
