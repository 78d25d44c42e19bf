"""Run what is planned on some processes, one thread each; then test, and report."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..infill.display import clock
from ..infill.store import RESULT, TrainFolder
from ..report import write_pages
from ..storage import RunError, json_bytes, read_json, write_bytes, writing
from ..workers import exclusive
from .plan import Run
from .report import build, print_tables

RESULTS, LOCK = "results.json", ".lock"
LINES = 10  # of news, where there is no terminal


def run_one(run: Run, again: bool) -> None:
    """Train and test one model, in a process of its own."""
    import torch

    from ..infill.run import train
    from ..infill.world import World

    torch.set_num_threads(1)
    train(run.settings, run.folder, Console(quiet=True), World(), again=again)


def realdata(runs: list[Run], out: Path, console: Console, *, jobs: int, again: bool) -> None:
    """Do what is not yet done, write results and report, print the tables.

    Raises:
        RunError: something that the user can mend. What was computed is on disk.
    """
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False):
        if again:
            for run in runs:
                (run.folder / RESULT).unlink(missing_ok=True)
        missing = [run for run in runs if not (run.folder / RESULT).exists()]
        console.print(f"{len(missing)} of {len(runs)} runs to do.", highlight=False)
        _run_all(missing, console, jobs, again)
        found = {
            "format": 1,
            "runs": [
                {
                    "group": run.group,
                    "model": run.model,
                    "seed": run.seed,
                    "settings": run.settings.to_dict(),
                    "result": read_json(run.folder / RESULT),
                }
                for run in runs
            ],
        }
        write_bytes(out / RESULTS, json_bytes(found, indent=None))
        paths = write_pages(build(found), out)
    print_tables(found, console)
    for name, path in paths.items():
        line = f"{name + ':':<10} {path}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _run_all(runs: list[Run], console: Console, jobs: int, again: bool) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(runs), 1)), context) as pool:
        futures = [pool.submit(run_one, run, again) for run in runs]
        try:
            _follow(runs, futures, console)
            for future in futures:
                future.result()
        except BrokenProcessPool:
            raise RunError(
                "a worker was killed, often for want of memory: try --jobs 1. Run the command "
                "again, without --again, to go on from where it was."
            ) from None
        finally:
            for process in list((pool._processes or {}).values()):
                process.terminate()


def _follow(runs: list[Run], futures: list[Future[None]], console: Console) -> None:
    """Show how many steps are done until all runs are, or one has failed."""
    total = sum(run.settings.steps for run in runs)
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    started, told = time.monotonic(), 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        while True:
            done, waiting = wait(futures, timeout=1.0)
            steps = sum(_steps(run) for run in runs)
            bar.update(task, completed=steps)
            finished = sum(future.done() for future in futures)
            if not console.is_terminal and finished - told >= max(len(runs) / LINES, 1):
                told = finished
                seconds = time.monotonic() - started
                left = clock(seconds / max(steps, 1) * (total - steps))
                text = f"{finished} of {len(runs)} runs, {clock(seconds)}, {left} left"
                console.print(text, highlight=False)
            if not waiting or any(future.exception() for future in done):
                return


def _steps(run: Run) -> int:
    folder = TrainFolder(run.folder)
    try:
        lines = folder.log()
    except OSError:
        return 0
    return int(lines[-1]["step"]) if lines else 0
