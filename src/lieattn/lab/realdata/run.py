"""Run what is planned on some processes, one thread each; then test, and report."""

from __future__ import annotations

import multiprocessing
import platform
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ... import __version__
from ..._core.errors import RunError
from ..._core.files import json_bytes
from ..._core.folders import exclusive, read_json, read_note, write_bytes, writing
from ..._core.stopping import keep, unwinding
from ...models.baselines import BASELINES
from ...workflows.display import clock
from ...workflows.process_group import ProcessGroup
from ...workflows.sources import parts
from ...workflows.store import RESULT, TrainFolder, load_trained
from ...workflows.train import train
from ..paper.reproduce import kept
from ..paper.storage import TIMING
from ..paper.workers import die_with_parent, signals_held_back
from ..report import write_pages
from .pairs import pairs_used
from .plan import Run
from .repeats import repeats
from .report import build, print_tables

RESULTS, LOCK = "results.json", ".lock"
LINES = 20  # of news, where there is no terminal


def run_one(run: Run) -> None:
    """Train and test one model, in a process of its own."""
    torch.set_num_threads(1)
    train(run.settings, run.folder, Console(quiet=True), ProcessGroup())


def realdata(
    runs: list[Run], out: Path, console: Console, *, jobs: int, overwrite: bool, command: str
) -> None:
    """Do what is not yet done, write results and report, print the table.

    Raises:
        RunError: something that the user can mend. What was computed is on disk.
    """
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False):
        keep(kept(overwrite))
        _claim(runs, overwrite)
        if overwrite:
            (out / TIMING).unlink(missing_ok=True)
        missing = [run for run in runs if not (run.folder / RESULT).exists()]
        console.print(f"{len(missing)} of {len(runs)} runs to do.", highlight=False)
        with unwinding(), _timed(out / TIMING, jobs, bool(missing)):
            _run_all(missing, console, jobs)
        found = _gather(runs, out, command)
        write_bytes(out / RESULTS, json_bytes(found, indent=None))
        pages = write_pages(build(found), out)
    print_tables(found, console)
    for name, path in pages.items():
        line = f"{name + ':':<10} {path}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _claim(runs: list[Run], overwrite: bool) -> None:
    """Make sure that folders hold these runs or none: finished ones are not looked at again."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as runs have
    try:
        digests = {run.settings.files: "" for run in runs}
        for run in runs:
            files = run.settings.files
            digests[files] = digests[files] or parts(run.settings).digest
            TrainFolder(run.folder).claim(run.settings, digests[files], 1, overwrite)
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _timed(path: Path, jobs: int, counts: bool) -> Iterator[None]:
    """Note how long a session took, however it ends."""
    started = time.monotonic()
    try:
        yield
    finally:
        if counts:
            earlier = read_note(path) or []
            session = {"seconds": round(time.monotonic() - started, 1), "jobs": jobs}
            write_bytes(path, json_bytes([*earlier, session]))


def _gather(runs: list[Run], out: Path, command: str) -> dict[str, Any]:
    """Everything that the report is made of."""
    sessions = read_note(out / TIMING) or []
    firsts = {run.group: run for run in reversed(runs)}
    return {
        "format": 1,
        "command": command,
        "seconds": sum(x["seconds"] for x in sessions),
        "jobs": max((x["jobs"] for x in sessions), default=1),
        "made_with": _versions({run.model for run in runs}),
        "pairs": {group: pairs_used(run.settings) for group, run in firsts.items()},
        "repeats": {g: repeats(run.settings) for g, run in firsts.items() if run.settings.kinds},
        "runs": [
            {
                "group": run.group,
                "model": run.model,
                "seed": run.seed,
                "settings": run.settings.to_dict(),
                "parameters": _size(run.folder),
                "valid_loss": min(x["valid_loss"] for x in TrainFolder(run.folder).log()),
                "result": read_json(run.folder / RESULT),
            }
            for run in sorted(runs, key=lambda run: str(run.folder))
        ],
    }


def _size(folder: Path) -> int:
    return sum(p.numel() for p in load_trained(folder).model.parameters())


def _versions(models: set[str]) -> dict[str, str]:
    found = {"lieattn": __version__, "torch": torch.__version__.split("+")[0]}
    for model in models & BASELINES.keys():
        if name := BASELINES[model].requires:
            found[name] = metadata.version(name)
    return found | {"python": platform.python_version()}


def _run_all(runs: list[Run], console: Console, jobs: int) -> None:
    if not runs:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(runs)), context, die_with_parent) as pool:
        with signals_held_back():  # from workers, which are started here
            futures = [pool.submit(run_one, run) for run in runs]
        try:
            _follow(runs, futures, console)
            for future in futures:
                future.result()
        except BrokenProcessPool:
            raise RunError(
                "a worker was killed, often for want of memory: try --jobs 1. Run the command "
                "again, without --overwrite, to go on from where it was."
            ) from None
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()


def _follow(runs: list[Run], futures: list[Future[None]], console: Console) -> None:
    """Show how much is done until all runs are, or one has failed."""
    total = sum(run.settings.steps * run.cost for run in runs)
    first = _done(runs)  # by an earlier session
    columns = (
        TextColumn("{task.fields[note]}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    started, told = time.monotonic(), 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, completed=int(first), note="")
        while True:
            done, waiting = wait(futures, timeout=1.0)
            work = _done(runs)
            finished = sum(future.done() for future in futures)
            note = f"{finished} of {len(runs)} runs"
            bar.update(task, completed=work, note=note)
            if not console.is_terminal and finished - told >= max(len(runs) / LINES, 1):
                told = finished
                seconds = time.monotonic() - started
                left = clock(seconds / max(work - first, 1) * (total - work))
                console.print(f"{note}, {clock(seconds)}, {left} left", highlight=False)
            if not waiting or any(future.exception() for future in done):
                return


def _done(runs: list[Run]) -> float:
    """Milliseconds of one core, about, that went into the runs."""
    return sum(_steps(run) * run.cost for run in runs)


def _steps(run: Run) -> int:
    try:
        lines = TrainFolder(run.folder).log()
    except OSError:
        return 0
    return int(lines[-1]["step"]) if lines else 0
