"""`lieattn bench`. Its options are the fields of `Request`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from inspect import Parameter
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console

from ..lab.bench.request import OPTIONS, Request, request
from .shared import declare, errors_told, given


def bench(
    ctx: typer.Context,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: SE3, width 16, N 128 and 512.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files; overwrites those there.")] = Path(
        "runs/bench"
    ),
    **values: Any,
) -> None:
    """Measure time and memory of attention over poses and of plain attention.

    Each takes turns with scaled_dot_product_attention on the same sizes; ratios are of least times.

    Writes bench.json, bench.md and figures. Ctrl-C keeps what is measured by then.
    """
    from ..lab.bench.run import run

    with errors_told():  # the defaults are left to `request`: --quick has others
        run(request(quick, **given(ctx, values)), out, Console())


def _options() -> Iterator[Parameter]:
    types = get_type_hints(Request)
    for each in fields(Request):
        kind = types[each.name]
        if get_origin(kind) is tuple:
            kind = GenericAlias(list, get_args(kind)[:1])
        default = None if each.default is MISSING else each.default
        names = [OPTIONS[each.name]] if each.metadata["name"] else []
        option = typer.Option(default, *names, help=each.metadata["help"])
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=option, annotation=kind)


declare(bench, _options())
