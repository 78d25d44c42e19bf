"""`lieattn verify`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from .._core.random import MAX_SEED


def verify(
    samples: Annotated[int, typer.Option(min=1, help="Random samples per group and dtype.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the samples.")] = 0,
) -> None:
    """Compute the paper's table of instantiations and measure the laws it proves.

    Exits with 1 if anything disagrees.
    """
    from ..lab import verify as verification

    if not verification.run(Console(), samples, seed):
        raise typer.Exit(1)
