"""How commands report errors that the user can correct."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import typer
from rich.console import Console

from .._core.errors import RunError


@contextlib.contextmanager
def errors_told(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Each error is one line without a traceback; after any of them the exit code is 2.

    What comes back prints such a line, for commands that go on after an error.
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
