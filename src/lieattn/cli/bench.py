"""`lieattn bench`. Its options are the fields of `Request`."""

from dataclasses import MISSING, fields
from inspect import Parameter, signature
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console

from ..lab.bench.request import OPTIONS, Request, request
from .shared import errors_told

_OUT = Path("runs/bench")


def bench(
    ctx: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: SE3, width 16, N 128 and 512.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files; overwrites those there.")] = _OUT,
    **values: Any,
) -> None:
    """Time attention over poses beside plain attention, and measure its memory.

    Each takes turns with scaled_dot_product_attention on the same sizes; ratios are of least times.

    Writes bench.json, bench.md and figures. Ctrl-C keeps what is measured by then.
    """
    from ..lab.bench.run import run

    # Only what stands on the command line: --quick has defaults of its own.
    sources: dict[str, Any] = {name: ctx.get_parameter_source(name) for name in values}
    given = {name: values[name] for name, at in sources.items() if at.name == "COMMANDLINE"}
    with errors_told():
        run(request(quick, **given), out, Console())


def _parameters() -> list[Parameter]:
    """An option for every field of `Request`."""
    types, found = get_type_hints(Request), []
    for each in fields(Request):
        kind = types[each.name]
        if get_origin(kind) is tuple:
            kind = GenericAlias(list, get_args(kind)[:1])
        default = None if each.default is MISSING else each.default
        names = [OPTIONS[each.name]] if each.metadata["name"] else []
        option = typer.Option(default, *names, help=each.metadata["help"])
        found.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=option, annotation=kind))
    return found


_own = signature(bench)
_named = [each for each in _own.parameters.values() if each.name != "values"]
setattr(bench, "__signature__", _own.replace(parameters=[*_named, *_parameters()]))  # noqa: B010
