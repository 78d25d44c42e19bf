"""How far a bench is: a live display in a terminal, a line for every case anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from .measuring import Event

REFRESH = 0.2  # seconds


def follow(events: Iterable[Event], cases: int, console: Console) -> None:
    """Show events until there are no more."""
    (_live if console.is_terminal else _plain)(events, cases, console)


def _live(events: Iterable[Event], cases: int, console: Console) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[note]}", style="dim"),
    )
    started = drawn = time.monotonic()
    finished = 0
    # Drawn between turns and never by a thread of its own: that would take part in what is timed.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task("", total=cases, note="")
        for event in events:
            now = time.monotonic()
            finished += event.finished
            done = finished + (0.0 if event.finished else event.share)
            if now - drawn > REFRESH or event.finished:
                note = f"{time_left(now - started, done / cases)}  {event.text}"
                progress.update(task, completed=done, description=str(event.case), note=note)
                progress.refresh()
                drawn = now


def _plain(events: Iterable[Event], cases: int, console: Console) -> None:
    started, finished = time.monotonic(), 0
    for event in events:
        if event.finished:
            finished += 1
            passed = time.monotonic() - started
            clock = time.strftime("%H:%M:%S", time.gmtime(passed))
            left = time_left(passed, finished / cases)
            line = f"{clock}  {event.case!s:<28} done, {finished} of {cases}, {left}"
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def time_left(passed: float, share: float) -> str:
    """About how long it will be, taking all cases for alike: the budget makes them so."""
    if share <= 0:
        return ""
    left = passed / share - passed
    return f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left"
