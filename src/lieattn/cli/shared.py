"""What several commands share: how errors are reported, arguments that are the same."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer
from rich.console import Console

from .._core.errors import RunError
from ..data import DATASETS

FILES = typer.Argument(
    help=f"Files of poses, or a data set: {', '.join(DATASETS)}.", show_default=False
)
JSON = typer.Option("--json", help="Print JSON.")
JOBS = typer.Option(min=1, help="Processes; by default one per core.")
OVERWRITE = typer.Option("--overwrite", help="Run finished runs again.")


@contextlib.contextmanager
def errors_told(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Print errors as one line each, without a traceback; the exit code is then 2.

    Yields a function that prints such a line, for commands that go on after an error.
    """
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True, quiet=quiet)
    told = []

    def tell(text: str) -> None:
        told.append(text)
        errors.print(f"lieattn: {text}")

    try:
        yield tell
    except RunError as error:
        tell(str(error))
    if told:
        raise typer.Exit(2)


def declare(command: Callable[..., None], options: Iterable[inspect.Parameter]) -> None:
    """Put options in the place of `**values` in the signature of a command."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    first = [x for x in own if x.kind is x.POSITIONAL_OR_KEYWORD]
    last = [x for x in own if x.kind is x.KEYWORD_ONLY]
    signature = inspect.Signature([*first, *options, *last])
    command.__signature__ = signature  # type: ignore[attr-defined]


def given(ctx: typer.Context, values: dict[str, Any]) -> dict[str, Any]:
    """The values that stand on the command line, without defaults."""
    sources: dict[str, Any] = {name: ctx.get_parameter_source(name) for name in values}
    return {name: values[name] for name, x in sources.items() if x.name == "COMMANDLINE"}
