"""How far a run is: a live display in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ...groups import get_group
from .protocols import Settings, cost
from .workers import Event

LINES = 5  # of a configuration, where there is no terminal


def follow(events: Iterable[Event], plan: list[Settings], console: Console) -> None:
    """Show events until there are no more."""
    if console.is_terminal:
        _live(events, plan, console)
    else:
        _plain(events, plan, console)


def label(settings: Settings) -> str:
    """A configuration in a few characters."""
    return f"{settings.protocol} {get_group(settings.group)} {settings.model}"


def _live(events: Iterable[Event], plan: list[Settings], console: Console) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="dim"),
    )
    width = max(len(label(settings)) for settings in plan)
    with Progress(*columns, console=console) as progress:
        work = sum(weight(settings) * settings.epochs for settings in plan)
        everything = progress.add_task("all".ljust(width), total=work, note="")
        tasks: dict[Settings, TaskID] = {}
        seen: dict[Settings, int] = {}
        for event in events:
            settings = event.settings
            if settings not in tasks:
                name = label(settings).ljust(width)
                tasks[settings] = progress.add_task(name, total=settings.epochs, note="")
            if event.kind == "warning":
                progress.console.print(f"warning: {event.text}", style="yellow", markup=False)
                continue
            note = f"validation {event.error:.1e}" if event.kind == "epoch" else ""
            progress.update(tasks[settings], completed=event.epoch, note=note)
            advance = weight(settings) * (event.epoch - seen.get(settings, 0))
            seen[settings] = event.epoch
            if event.kind == "started":  # what was there already took no time now
                work -= advance
                progress.update(everything, total=work)
            else:
                progress.update(everything, advance=advance)
            if event.kind == "finished":
                progress.remove_task(tasks[settings])
                progress.console.print(f"{label(settings):<{width}}  done", highlight=False)


def _plain(events: Iterable[Event], plan: list[Settings], console: Console) -> None:
    started = time.monotonic()
    width = max(len(label(settings)) for settings in plan)
    for event in events:
        settings = event.settings
        text = ""
        if event.kind == "warning":
            text = f"warning: {event.text}"
        elif event.kind == "finished":
            text = "done"
        elif event.kind == "epoch" and event.epoch % max(settings.epochs // LINES, 1) == 0:
            text = f"epoch {event.epoch:>3} of {settings.epochs}, validation {event.error:.1e}"
        if text:
            clock = time.strftime("%H:%M:%S", time.gmtime(time.monotonic() - started))
            line = f"{clock}  {label(settings):<{width}}  {text}"
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def weight(settings: Settings) -> float:
    """About what an epoch costs, for the time left."""
    return cost(settings) / settings.epochs
