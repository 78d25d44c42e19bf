"""Run what is planned on some processes, one thread each; then test, and report."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from ... import __version__
from ..._core.files import json_bytes
from ..._core.folders import exclusive, read_json, read_note, write_bytes, writing
from ..._core.stopping import keep, unwinding
from ...models.baselines import BASELINES
from ...workflows.process_group import ProcessGroup
from ...workflows.sources import parts
from ...workflows.store import RESULT, TrainFolder, load_trained
from ...workflows.train import train
from ..paper.reproduce import kept
from ..paper.storage import TIMING
from ..report import write_pages
from ..workers import run_all
from .measures import pairs_used, repeats
from .plan import Run
from .report import build, print_tables

RESULTS, LOCK = "results.json", ".lock"


def run_one(run: Run) -> None:
    """Train and test one model, in a process of its own."""
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
            if missing:
                total = sum(run.settings.steps * run.cost for run in missing)
                done = partial(_done, missing)
                run_all(run_one, missing, jobs, console, done=done, total=total)
        found = _gather(runs, out, command)
        write_bytes(out / RESULTS, json_bytes(found, indent=None))
        pages = write_pages(build(found), out)
    print_tables(found, console)
    for name, path in pages.items():
        line = f"{name + ':':<10} {path}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _claim(runs: list[Run], overwrite: bool) -> None:
    """Make sure that folders hold these runs or none: finished ones are not read again."""
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


def _done(runs: list[Run]) -> float:
    """Milliseconds of one core, about, that went into the runs."""
    return sum(_steps(run) * run.cost for run in runs)


def _steps(run: Run) -> int:
    try:
        lines = TrainFolder(run.folder).log()
    except OSError:
        return 0
    return int(lines[-1]["step"]) if lines else 0
