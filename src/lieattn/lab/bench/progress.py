"""How far a bench is: a live display in a terminal, lines anywhere else; cases as they are done."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from .contestants import SDPA
from .measuring import Event
from .results import ratio
from .timing import Cell

REFRESH = 0.2  # seconds between two looks at one contestant
SILENCE = 10.0  # seconds after which a file is told what is being measured


def follow(events: Iterable[Event], cases: int, console: Console) -> None:
    """Show events until there are no more."""
    (_live if console.is_terminal else _plain)(events, cases, console)


def _live(events: Iterable[Event], cases: int, console: Console) -> None:
    columns = (
        BarColumn(bar_width=6),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[left]}", style="dim"),
        TextColumn("{task.description}"),
    )
    started, drawn, shown, finished = time.monotonic(), 0.0, "", 0
    # Drawn between turns and never by a thread of its own: that would take part in what is timed.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task("", total=1.0, left="")
        for event in events:
            now = time.monotonic()
            if event.cell is not None:
                finished += 1
                _print(console, _line(event.cell, finished, cases))
            if event.cell is None and event.text == shown and now - drawn < REFRESH:
                continue
            left = time_left(now - started, event.done).removesuffix(" left")
            text = f"{event.title}: {event.text}" if event.text else event.title
            progress.update(task, completed=event.done, description=text, left=left)
            progress.refresh()
            drawn, shown = now, event.text


def _plain(events: Iterable[Event], cases: int, console: Console) -> None:
    started, finished = time.monotonic(), 0
    told, shown = started, ""
    for event in events:
        now = time.monotonic()
        text = f"{event.title}: {event.text}"
        if event.cell is not None:
            finished += 1
            text = f"{_line(event.cell, finished, cases)}, {time_left(now - started, event.done)}"
        elif event.seconds > SILENCE / 2:
            text = f"{text}, about {event.seconds:.0f} s"
        elif now - told < SILENCE or text == shown:
            continue
        told, shown = now, text
        clock = time.strftime("%H:%M:%S", time.gmtime(now - started))
        _print(console, f"{clock}  {text}")


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def _line(cell: Cell, finished: int, cases: int) -> str:
    """A case that is done, with its first contestant's times over SDPA's."""
    least = {key: min(times) for key, times in cell.times.items() if times}
    name = next((key[0] for key in least if key[0] != SDPA), None)
    ratios = []
    for which in (which for contestant, which in least if contestant == name):
        base = least.get((SDPA, "backward" if which == "poses" else which))
        ratios.append(ratio(base and least[name or "", which] / base))
    said = f"{name} {' / '.join(ratios)} x SDPA" if ratios else "done"
    return f"{cell.case!s:<28} {said}, {finished} of {cases}"


def time_left(passed: float, share: float) -> str:
    """About how long it will be."""
    if share <= 0:
        return ""
    left = passed / share - passed
    return f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left"
