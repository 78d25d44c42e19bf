"""How far a bench is: a live line in a terminal, lines of text elsewhere; cases as they finish."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .contestants import SDPA
from .measuring import Event
from .results import ratio
from .timing import Cell

SILENCE = 10.0  # seconds after which a file has a line on what is being measured


def follow(events: Iterable[Event], cases: int, console: Console) -> None:
    """Show events until there are no more."""
    # Drawn for each event and never by a thread of its own, which would disturb what is timed.
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    started = written = time.monotonic()
    finished = 0
    with live or nullcontext():
        for event in events:
            now = time.monotonic()
            left, text = time_left(now - started, event.done), f"{event.title}: {event.text}"
            if event.cell is not None:
                finished += 1
                text = _line(event.cell, finished, cases)
                if live:
                    _print(console, text)
                text = event.title if live else f"{text}, {left}"
            if live:
                line = Text(f"{event.done:4.0%}  {left.removesuffix(' left'):6}  {text}")
                line.overflow, line.no_wrap = "ellipsis", True
                live.update(line, refresh=True)
            elif event.cell or event.seconds > SILENCE / 2 or now - written >= SILENCE:
                about = f", about {event.seconds:.0f} s" if event.seconds > SILENCE / 2 else ""
                clock = time.strftime("%H:%M:%S", time.gmtime(now - started))
                _print(console, f"{clock}  {text}{about}")
                written = now


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def _line(cell: Cell, finished: int, cases: int) -> str:
    """A finished case, with its first contestant's times over SDPA's."""
    least = {key: min(times) for key, times in cell.times.items() if times}
    name = next((key[0] for key in least if key[0] != SDPA), "")
    ratios = []
    for which in (which for contestant, which in least if contestant == name):
        base = least.get((SDPA, "backward" if which == "poses" else which))
        ratios.append(ratio(base and least[name, which] / base))
    said = f"{name} {' / '.join(ratios)} x SDPA" if ratios else "done"
    return f"{cell.case!s:<28} {said}, {finished} of {cases}"


def time_left(passed: float, share: float) -> str:
    """About how long it will be."""
    if share <= 0:
        return ""
    left = passed / share - passed
    return f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left"
