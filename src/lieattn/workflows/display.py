"""How far training is: a bar with the time left in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

LINES = 10  # of a run, without a terminal


class Display:
    """Shows steps and validations.

    Args:
        steps: number of steps of the run.
        done: those of earlier sessions.
    """

    def __init__(self, console: Console, steps: int, done: int) -> None:
        self.console, self.steps, self.first = console, steps, done
        self.started = time.monotonic()
        self.printed = done
        self.bar = Progress(
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[note]}", style="dim"),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("", total=steps, completed=done, note="")

    def __enter__(self) -> Display:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def step(self) -> None:
        self.bar.advance(self.task)

    def validated(self, line: dict[str, Any]) -> None:
        """Show the losses of a line of the log."""
        step = line["step"]
        note = f"loss {line['train_loss']:.3f}, validation {line['valid_loss']:.3f}"
        note += ", best" if line["best"] else ""
        if self.console.is_terminal:
            self.bar.update(self.task, note=note)
        elif step - self.printed >= self.steps / LINES or step >= self.steps:
            self.printed = step
            seconds = time.monotonic() - self.started
            left = seconds / max(step - self.first, 1) * (self.steps - step)
            text = f"step {step:>{len(str(self.steps))}} of {self.steps}, {note}"
            text += f", {clock(left)} left" if step < self.steps else ""
            self.console.print(text, highlight=False, soft_wrap=True)


def table(title: str, first: str, *others: str, caption: str | Text = "") -> Table:
    """An empty table of a terminal; columns after the first are aligned to the right."""
    made = Table(title=title, caption=caption, box=SIMPLE_HEAD, pad_edge=False)
    made.title_justify = made.caption_justify = "left"
    made.add_column(first, no_wrap=True)
    for name in others:
        made.add_column(name, justify="right", no_wrap=True)
    return made


def clock(seconds: float) -> str:
    """A duration as people read it.

    >>> clock(7.4), clock(754), clock(7540)
    ('7 s', '13 min', '2.1 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
