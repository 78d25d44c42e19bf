"""What several commands share: how errors are reported, arguments that are the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import typer
from rich.console import Console

from .._core.errors import RunError
from ..data import DATASETS

FILES = typer.Argument(
    help=f"Files of poses, or a data set: {', '.join(DATASETS)}.", show_default=False
)
JSON = typer.Option("--json", help="Print JSON.")


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
